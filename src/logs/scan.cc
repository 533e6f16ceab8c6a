#include "src/logs/scan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace stepwatch::logs::scan {
namespace {

constexpr size_t kNumberBytesMax = 64;

// "nan", "inf" or "infinity", perhaps followed by ".0", and by no letter or digit.
std::optional<double> TakeSpelled(std::string_view* text) {
  double value = 0;
  size_t size = 3;
  if (text->size() < size) return std::nullopt;
  if (EqualsIgnoringCase(text->substr(0, 3), "nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (EqualsIgnoringCase(text->substr(0, 3), "inf")) {
    value = std::numeric_limits<double>::infinity();
    if (text->size() >= 8 && EqualsIgnoringCase(text->substr(0, 8), "infinity")) size = 8;
  } else {
    return std::nullopt;
  }
  std::string_view rest = text->substr(size);
  Take(&rest, ".0");
  if (!rest.empty() && (IsWordByte(rest.front()))) return std::nullopt;
  *text = rest;
  return value;
}

// Most numbers: at most 15 digits with a point or none, of which the quotient of two exact numbers is the nearest
// value. Nullopt, and removes nothing: another text, which may be a number.
std::optional<double> TakePlain(std::string_view* text) {
  constexpr double kPowers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  constexpr size_t kDigitsMax = 15;
  const std::string_view all = *text;
  int64_t value = 0;
  size_t i = 0;
  while (i < all.size() && i <= kDigitsMax && IsDigit(all[i])) value = value * 10 + (all[i++] - '0');
  size_t digits = i, fraction = 0;
  if (digits == 0) return std::nullopt;
  if (i < all.size() && all[i] == '.') {
    for (++i; i < all.size() && digits <= kDigitsMax && IsDigit(all[i]); ++i, ++digits, ++fraction)
      value = value * 10 + (all[i] - '0');
  }
  if (digits > kDigitsMax || (i < all.size() && (all[i] == ',' || all[i] == '.' || Lower(all[i]) == 'e')))
    return std::nullopt;
  text->remove_prefix(i);
  return static_cast<double>(value) / kPowers[fraction];
}

// With commas between groups of three digits. Nullopt: no number.
std::optional<double> TakeDigits(std::string_view* text) {
  char digits[kNumberBytesMax];
  size_t size = 0, i = 0;
  const std::string_view all = *text;
  const auto grouped = [all](size_t comma) {
    return comma + 3 < all.size() && IsDigit(all[comma + 1]) && IsDigit(all[comma + 2]) && IsDigit(all[comma + 3]) &&
           (comma + 4 == all.size() || !IsDigit(all[comma + 4]));
  };
  size_t whole = 0;
  bool has_comma = false;
  for (; i < all.size() && size < kNumberBytesMax; ++i) {
    if (IsDigit(all[i])) {
      digits[size++] = all[i];
      ++whole;
    } else if (all[i] == ',' && whole > 0 && (has_comma || whole <= 3) && grouped(i)) {
      has_comma = true;
    } else {
      break;
    }
  }
  size_t fraction = 0;
  if (i < all.size() && all[i] == '.') {
    if (size < kNumberBytesMax) digits[size++] = '.';
    for (++i; i < all.size() && IsDigit(all[i]); ++i, ++fraction)
      if (size < kNumberBytesMax) digits[size++] = all[i];
  }
  if (whole + fraction == 0) return std::nullopt;
  if (i < all.size() && Lower(all[i]) == 'e') {
    size_t end = i + 1;
    if (end < all.size() && (all[end] == '+' || all[end] == '-')) ++end;
    const size_t first = end;
    while (end < all.size() && IsDigit(all[end])) ++end;
    if (end > first) {
      if (size + 6 >= kNumberBytesMax || end - first > 4) return std::nullopt;
      digits[size++] = 'e';
      for (++i; i < end; ++i)
        if (all[i] != '+') digits[size++] = all[i];
    }
  }
  if (i < all.size() && all[i] == '.' && i + 1 < all.size() && IsDigit(all[i + 1])) return std::nullopt;  // 1.2.3
  double value = 0;
  const auto read = std::from_chars(digits, digits + size, value);
  if (read.ec == std::errc::result_out_of_range) {
    // A number too large for the type reads as infinite, one too small as 0.
    const std::string_view used(digits, size);
    const size_t exponent = used.find('e');
    const bool is_small = exponent != std::string_view::npos && exponent + 1 < size && used[exponent + 1] == '-';
    value = is_small ? 0 : std::numeric_limits<double>::infinity();
  } else if (read.ec != std::errc() || (read.ptr != digits + size && !(size > 0 && digits[size - 1] == '.'))) {
    return std::nullopt;
  }
  *text = all.substr(i);
  return value;
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  text = WithoutBlanksBefore(text);
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return Lower(x) == Lower(y); });
}

std::optional<int64_t> TakeWhole(std::string_view* text) {
  constexpr size_t kDigitsMax = 18;
  int64_t value = 0;
  size_t i = 0;
  for (; i < text->size() && IsDigit((*text)[i]); ++i) {
    if (i == kDigitsMax) return std::nullopt;
    value = value * 10 + ((*text)[i] - '0');
  }
  if (i == 0) return std::nullopt;
  text->remove_prefix(i);
  return value;
}

std::optional<double> TakeNumber(std::string_view* text) {
  std::string_view rest = WithoutBlanksBefore(*text);
  char quote = 0;
  if (!rest.empty() && (rest.front() == '\'' || rest.front() == '"')) {
    quote = rest.front();
    rest.remove_prefix(1);
  }
  const bool is_tensor = quote == 0 && Take(&rest, "tensor(");
  double sign = 1;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    sign = rest.front() == '-' ? -1 : 1;
    rest.remove_prefix(1);
  }
  std::optional<double> value = TakePlain(&rest);
  if (!value) value = TakeSpelled(&rest);
  if (!value) value = TakeDigits(&rest);
  if (!value) return std::nullopt;
  if (quote != 0) {
    if (rest.empty() || rest.front() != quote) return std::nullopt;
    rest.remove_prefix(1);
  }
  if (is_tensor) rest.remove_prefix(std::min(rest.size(), rest.find(')')));
  *text = rest;
  return sign * *value;
}

}  // namespace stepwatch::logs::scan
