// Small readers at the start of a text, for lines of logs. ASCII only; no locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepwatch::logs::scan {

constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool IsAlpha(char c) {
  return IsUpper(c) || IsLower(c);
}
constexpr bool IsWordByte(char c) {
  return IsAlpha(c) || IsDigit(c) || c == '_';
}
constexpr bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}
constexpr char Lower(char c) {
  return IsUpper(c) ? static_cast<char>(c + ('a' - 'A')) : c;
}

inline std::string_view WithoutBlanksBefore(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return text;
}
std::string_view Trimmed(std::string_view text);
// Case is ignored.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// True, and removes it, if `text` starts with `word`.
inline bool Take(std::string_view* text, std::string_view word) {
  if (!text->starts_with(word)) return false;
  text->remove_prefix(word.size());
  return true;
}
// Digits at the start, at most 18 of them; removes them.
std::optional<int64_t> TakeWhole(std::string_view* text);

// A number as programs print it, at the start; removes it: 1, -1.5e-04, 12,345.6, nan, -inf, nan.0, quoted, or as
// tensor(...). Nullopt, and removes nothing, for any other text, also for "1.2.3".
std::optional<double> TakeNumber(std::string_view* text);

}  // namespace stepwatch::logs::scan
