#include "src/json/loose_json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "src/base/text.h"

namespace stepwatch::json {
namespace {

template <class AnyJson>
std::optional<double> ReadNumber(const AnyJson& value) {
  if (value.is_number()) return value.template get<double>();
  if (!value.is_string()) return std::nullopt;
  std::string text = value.template get_ref<const std::string&>();
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.erase(0, 1);
  if (text == "nan") return std::nan("");
  if (text == "inf" || text == "infinity") return is_negative ? -HUGE_VAL : HUGE_VAL;
  return std::nullopt;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kEscapeBytes = 6;                         // \uXXXX

// The code unit of an escape \uXXXX at the beginning of the text.
std::optional<uint32_t> CodeUnit(std::string_view text) {
  if (text.size() < kEscapeBytes || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  uint32_t unit = 0;
  for (const char letter : text.substr(2, 4)) {
    if (std::isxdigit(static_cast<unsigned char>(letter)) == 0) return std::nullopt;
    const int digit = std::isdigit(static_cast<unsigned char>(letter)) != 0
                          ? letter - '0'
                          : std::tolower(static_cast<unsigned char>(letter)) - 'a' + 10;
    unit = unit * 16 + static_cast<uint32_t>(digit);
  }
  return unit;
}

bool IsFirstHalf(std::optional<uint32_t> unit) {
  return unit && *unit >= 0xD800 && *unit < 0xDC00;
}

bool IsSecondHalf(std::optional<uint32_t> unit) {
  return unit && *unit >= 0xDC00 && *unit < 0xE000;
}

// Appends the first character or escape of the text, which lies in a JSON string; returns its bytes.
size_t MendInText(std::string_view text, std::string* mended) {
  if (text[0] == '\\') {
    const std::optional<uint32_t> unit = CodeUnit(text);
    const bool is_pair = IsFirstHalf(unit) && IsSecondHalf(CodeUnit(text.substr(kEscapeBytes)));
    if (!is_pair && (IsFirstHalf(unit) || IsSecondHalf(unit))) {
      *mended += kReplacement;
      return kEscapeBytes;
    }
    const size_t bytes = is_pair ? 2 * kEscapeBytes : 2;
    *mended += text.substr(0, bytes);
    return std::min(bytes, text.size());
  }
  *mended += text[0];
  return 1;
}

size_t MendOutside(std::string_view text, std::string* mended) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.substr(0, word.size()) != word) continue;
    *mended += '"';
    *mended += word;
    *mended += '"';
    return word.size();
  }
  *mended += text[0];
  return 1;
}

}  // namespace

std::optional<double> LooseNumber(const Json& value) {
  return ReadNumber(value);
}

std::optional<double> LooseNumber(const nlohmann::json& value) {
  return ReadNumber(value);
}

std::string MendJson(std::string_view text_untrusted) {
  const std::string text = base::ValidUtf8(text_untrusted);
  std::string mended;
  mended.reserve(text.size());
  bool in_text = false;
  for (std::string_view rest = text; !rest.empty();) {
    if (rest[0] == '"') {
      in_text = !in_text;
      mended += '"';
      rest.remove_prefix(1);
      continue;
    }
    rest.remove_prefix(in_text ? MendInText(rest, &mended) : MendOutside(rest, &mended));
  }
  return mended;
}

}  // namespace stepwatch::json
