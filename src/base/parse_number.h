// Parser of numbers in foreign text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace stepwatch::base {

// The decimal number that is the whole text. Nullopt for any other text, and for a number that the type cannot hold.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text_untrusted) {
  Number number = 0;
  const char* const end = text_untrusted.data() + text_untrusted.size();
  const auto read = std::from_chars(text_untrusted.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional<Number>(number) : std::nullopt;
}

}  // namespace stepwatch::base
