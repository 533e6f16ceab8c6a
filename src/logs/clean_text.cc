#include "src/logs/clean_text.h"

#include <cstddef>

#include "src/base/text.h"

namespace stepwatch::logs {
namespace {

constexpr char kEscape = '\x1b';

// The size of the escape sequence at the start of `text`, which begins with an escape: a command, a title, or two
// bytes.
size_t EscapeSize(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] < 0x40) ++i;
    return i < text.size() && text[i] >= 0x40 && text[i] < 0x7f ? i + 1 : i;
  }
  if (text[1] == ']') {
    for (size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == kEscape) return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : i;
    }
    return text.size();
  }
  return 2;
}

constexpr size_t kBytesAtOnce = 32;

unsigned MayBeUnclean(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return static_cast<unsigned>(byte < 0x20) | static_cast<unsigned>(byte >= 0x7f) | static_cast<unsigned>(byte == '#');
}

// Tabs are clean, and '#' is where it begins no escape of syslog.
bool IsCleanFrom(std::string_view bytes, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const char c = bytes[i];
    if (MayBeUnclean(c) == 0 || c == '\t') continue;
    if (c != '#' || (i + 3 < bytes.size() && bytes[i + 1] == '0')) return false;
  }
  return true;
}

}  // namespace

bool IsClean(std::string_view bytes) {
  size_t i = 0;
  // Without a branch for a byte, so that the compiler compares many at once.
  for (; i + kBytesAtOnce <= bytes.size(); i += kBytesAtOnce) {
    unsigned is_odd = 0;
    for (size_t j = 0; j < kBytesAtOnce; ++j) is_odd |= MayBeUnclean(bytes[i + j]);
    if (is_odd != 0 && !IsCleanFrom(bytes, i, i + kBytesAtOnce)) return false;
  }
  return IsCleanFrom(bytes, i, bytes.size());
}

std::string CleanText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  bool is_ascii = true;
  for (size_t i = 0; i < bytes.size();) {
    const char c = bytes[i];
    const std::string_view rest = bytes.substr(i);
    if (c == kEscape) {
      i += EscapeSize(rest);
    } else if (c == '#' && rest.starts_with("#011")) {
      text += '\t';
      i += 4;
    } else if (c == '#' && rest.starts_with("#012")) {
      text += '\n';
      i += 4;
    } else if (c == '#' && rest.starts_with("#015")) {
      i += 4;
    } else if (c == '#' && rest.starts_with("#033[")) {
      i += 4 + EscapeSize(rest.substr(3)) - 1;
    } else {
      const bool is_control = (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
      if (!is_control) text += c;
      is_ascii = is_ascii && static_cast<unsigned char>(c) < 0x80;
      ++i;
    }
  }
  return is_ascii ? text : base::ValidUtf8(text);
}

std::string_view CutUtf8(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace stepwatch::logs
