#include "operations/logs/split_lines.h"

#include <algorithm>

namespace stepwatch::operations {
namespace {

constexpr size_t kNone = std::string_view::npos;

// The end of a line: the place of its separator, and behind it. `found` is kNone if the bytes do not decide it.
struct Separator {
  size_t found = kNone;
  size_t behind = kNone;
  bool is_return = false;
};

Separator FindSeparator(std::string_view bytes, size_t begin, bool is_all) {
  const size_t feed = bytes.find('\n', begin);
  const size_t return_at = bytes.substr(0, feed).find('\r', begin);
  if (return_at == kNone) return {feed, feed == kNone ? kNone : feed + 1, false};
  if (feed != kNone && return_at + 1 == feed) return {return_at, feed + 1, false};
  // A line feed may follow.
  if (return_at + 1 == bytes.size() && !is_all) return {};
  return {return_at, return_at + 1, true};
}

}  // namespace

SplitLines SplitIntoLines(std::string_view bytes, const SplitOptions& options) {
  SplitLines split;
  split.is_inside = options.is_inside;
  size_t at = 0;
  while (at < bytes.size() && split.lines.size() < options.lines_max) {
    if (!split.is_inside) at = std::min(bytes.find_first_not_of('\0', at), bytes.size());
    split.consumed = at;
    if (at == bytes.size()) break;
    const Separator separator = FindSeparator(bytes, at, options.is_all);
    if (split.is_inside) {
      // A carriage return at the end stays: a line feed may follow.
      at = separator.found != kNone ? separator.behind : bytes.size() - (bytes.ends_with('\r') ? 1 : 0);
      split.is_inside = separator.found == kNone && !options.is_all;
      split.consumed = at;
      if (separator.found == kNone) break;
      continue;
    }
    const bool is_open = separator.found == kNone && !options.is_all && bytes.ends_with('\r');
    const size_t size = std::min(separator.found, bytes.size() - (is_open ? 1 : 0)) - at;
    if (size > options.line_bytes_max) {
      split.lines.push_back({bytes.substr(at, options.line_bytes_max), at, at + options.line_bytes_max, true});
      at += options.line_bytes_max;
      split.consumed = at;
      split.is_inside = true;
      continue;
    }
    if (separator.found == kNone && !options.is_all) break;
    const size_t behind = separator.found == kNone ? bytes.size() : separator.behind;
    if (size > 0 || !separator.is_return) split.lines.push_back({bytes.substr(at, size), at, behind, false});
    at = split.consumed = behind;
  }
  return split;
}

}  // namespace stepwatch::operations
