#include "src/config/json_value.h"

#include <charconv>
#include <utility>

#include "src/base/text.h"

namespace stepwatch::config {

const JsonValue* JsonValue::Member(std::string_view name) const {
  if (kind != Kind::kObject) return nullptr;
  for (const JsonValue& child : children)
    if (child.key == name) return &child;
  return nullptr;
}

namespace {

// A UTF-16 unit, written as \uNNNN at `at`.
unsigned UnitAt(std::string_view text, size_t at) {
  unsigned unit = 0;
  (void)std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return unit;
}

// Bytes of an escape in the text, and of its value.
std::pair<size_t, size_t> EscapeAt(std::string_view text, size_t at) {
  if (text[at + 1] != 'u') return {2, 1};
  const unsigned unit = UnitAt(text, at);
  if (unit >= 0xd800 && unit < 0xdc00) return {12, 4};  // with the second half of the pair
  return {6, unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3};
}

}  // namespace

size_t PlaceInString(std::string_view text, ByteRange written, size_t byte) {
  size_t at = written.begin + 1;  // after the quote
  for (size_t passed = 0; at + 1 < written.end;) {
    const auto [bytes, value_bytes] = text[at] == '\\' ? EscapeAt(text, at) : std::pair<size_t, size_t>{1, 1};
    passed += value_bytes;
    if (passed > byte) break;
    at += bytes;
  }
  return at;
}

std::string PathOfMember(const std::string& parent, std::string_view key_untrusted) {
  return (parent.empty() ? "" : parent + ".") + base::Printable(key_untrusted);
}

std::string PathOfElement(const std::string& parent, size_t i) {
  return parent + "[" + std::to_string(i) + "]";
}

}  // namespace stepwatch::config
