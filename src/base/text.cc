#include "src/base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <numeric>

namespace stepwatch::base {
namespace {

constexpr size_t kWordBytesMax = 128;  // bounds the work on hostile input

// Three rows of a distance table; only a band around the diagonal is filled.
using Row = std::array<size_t, kWordBytesMax + 1>;

// Optimal string alignment distance, or any number above `limit` if it is above that. Both words have at most
// kWordBytesMax bytes. Entries further than `limit` from the diagonal cannot be part of a distance that counts.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit, SearchBudget* budget) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  const size_t beyond = limit + 1;
  Row rows[3];
  Row *before = &rows[0], *previous = &rows[1], *current = &rows[2];
  std::iota(previous->begin(), previous->end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    const size_t first = i > limit ? i - limit : 1;
    const size_t last = std::min(b.size(), i + limit);
    (*current)[first - 1] = first == 1 ? i : beyond;
    if (last < b.size()) (*current)[last + 1] = beyond;
    size_t least = (*current)[first - 1];
    for (size_t j = first; j <= last; ++j) {
      size_t distance = (*previous)[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance = std::min({distance, (*previous)[j] + 1, (*current)[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        distance = std::min(distance, (*before)[j - 2] + 1);
      (*current)[j] = distance;
      least = std::min(least, distance);
    }
    budget->entries -= std::min(budget->entries, last + 1 - first);
    if (least > limit) return beyond;
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return (*previous)[b.size()];
}

// Bytes of the control character at the beginning of the text, 0 if there is none: C0 and DEL, C1 (U+0080 to U+009F),
// and the marks that change the direction of writing (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
size_t ControlLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  if (byte(0) != 0xe2) return 0;
  const bool marks = byte(1) == 0x80 && ((byte(2) >= 0xaa && byte(2) <= 0xae) || byte(2) == 0x8e || byte(2) == 0x8f);
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return marks || isolates ? 3 : 0;
}

// Bytes of the UTF-8 character at the beginning of the text, 0 if it is invalid. Overlong forms, surrogates and code
// points beyond U+10FFFF are invalid.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [&](size_t i, unsigned least, unsigned most) { return byte(i) >= least && byte(i) <= most; };
  const auto follows = [&](size_t i) { return within(i, 0x80, 0xbf); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (within(0, 0xc2, 0xdf)) return follows(1) ? 2 : 0;
  if (within(0, 0xe0, 0xef)) {
    const bool second = within(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (within(0, 0xf0, 0xf4)) {
    const bool second = within(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void AppendHex(unsigned char byte, std::string* text) {
  char escape[8];
  std::snprintf(escape, sizeof escape, "\\x%02x", byte);
  *text += escape;
}

// Appends the escape of a character of at most three bytes, enough for all escaped ones.
void AppendCodePoint(std::string_view character, std::string* text) {
  const auto bits = [&](size_t i, unsigned mask) { return static_cast<unsigned char>(character[i]) & mask; };
  const unsigned code = character.size() == 1   ? bits(0, 0x7f)
                        : character.size() == 2 ? bits(0, 0x1f) << 6 | bits(1, 0x3f)
                                                : bits(0, 0x0f) << 12 | bits(1, 0x3f) << 6 | bits(2, 0x3f);
  char escape[8];
  std::snprintf(escape, sizeof escape, "\\u%04x", code);
  *text += escape;
}

}  // namespace

std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& candidates,
                             SearchBudget* budget) {
  SearchBudget own;
  if (budget == nullptr) budget = &own;
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  if (word.size() > kWordBytesMax) return best;
  for (std::string_view candidate : candidates) {
    if (budget->entries == 0 || best_distance == 0) break;
    if (candidate.empty() || candidate.size() > kWordBytesMax) continue;
    const size_t likely = std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3);
    const size_t limit = std::min(likely, best_distance - 1);
    const size_t distance = EditDistance(word, candidate, limit, budget);
    if (distance > limit) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string Printable(std::string_view untrusted, size_t length_max) {
  bool cut = false;
  if (untrusted.size() > length_max) {
    size_t end = length_max;
    while (end > 0 && (static_cast<unsigned char>(untrusted[end]) & 0xc0) == 0x80) --end;
    untrusted = untrusted.substr(0, end);
    cut = true;
  }
  std::string text;
  for (size_t i = 0; i < untrusted.size(); ++i) {
    const auto c = static_cast<unsigned char>(untrusted[i]);
    const size_t length = ControlLength(untrusted.substr(i));
    for (size_t j = 0; j < length; ++j) AppendHex(static_cast<unsigned char>(untrusted[i + j]), &text);
    if (length == 0) text += static_cast<char>(c);
    if (length > 1) i += length - 1;
  }
  if (cut) text += "…";
  return text;
}

std::string TerminalText(std::string_view untrusted) {
  std::string text;
  while (!untrusted.empty()) {
    const size_t length = CharacterLength(untrusted);
    const std::string_view character = untrusted.substr(0, std::max<size_t>(length, 1));
    if (length == 0)
      AppendHex(static_cast<unsigned char>(character.front()), &text);
    else if (character == "\n" || character == "\t" || ControlLength(character) == 0)
      text += character;
    else
      AppendCodePoint(character, &text);
    untrusted.remove_prefix(character.size());
  }
  return text;
}

std::string Joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += between;
    joined += part;
  }
  return joined;
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    valid += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return valid;
}

}  // namespace stepwatch::base
