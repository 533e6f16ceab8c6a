#include "src/vocabulary/number_text.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "src/base/check.h"

namespace stepwatch::vocabulary {
namespace {

constexpr int kNdigitsMax = 20;
// All of them are exact doubles (10^22 is the largest that is).
constexpr double kPowersOfTen[kNdigitsMax + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9, 1e10,
                                                  1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20};

double Rounded(double value, int ndigits) {
  STEPWATCH_CHECK(ndigits <= kNdigitsMax);
  const double scale = kPowersOfTen[ndigits];
  const double scaled = value * scale;
  return std::isfinite(scaled) ? std::nearbyint(scaled) / scale : value;
}

// A finite, non-negative double as 0.DIGITS x 10^point, with the fewest digits that read back to it.
struct Decimal {
  char digits[17];
  int count = 0;
  int point = 0;
};

Decimal ShortestDecimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  STEPWATCH_CHECK(end.ec == std::errc());
  Decimal decimal;
  const char* at = text;
  for (; *at != 'e'; ++at)
    if (*at != '.') decimal.digits[decimal.count++] = *at;
  at += at[1] == '+' ? 2 : 1;  // from_chars accepts a minus but no plus
  int exponent = 0;
  std::from_chars(at, end.ptr, exponent);
  decimal.point = exponent + 1;
  return decimal;
}

void AppendScientific(const Decimal& decimal, std::string* text) {
  const int exponent = decimal.point - 1;
  text->push_back(decimal.digits[0]);
  if (decimal.count > 1) text->append(".").append(decimal.digits + 1, decimal.count - 1);
  text->append(exponent < 0 ? "e-" : "e+");
  if (std::abs(exponent) < 10) text->push_back('0');
  AppendInteger(std::abs(exponent), text);
}

void AppendPositional(const Decimal& decimal, std::string* text) {
  if (decimal.point <= 0) {
    text->append("0.").append(-decimal.point, '0').append(decimal.digits, decimal.count);
  } else if (decimal.point >= decimal.count) {
    text->append(decimal.digits, decimal.count).append(decimal.point - decimal.count, '0').append(".0");
  } else {
    text->append(decimal.digits, decimal.point).append(".");
    text->append(decimal.digits + decimal.point, decimal.count - decimal.point);
  }
}

}  // namespace

void AppendDouble(double value, int ndigits, std::string* text) {
  if (std::isnan(value)) {
    text->append("nan");
    return;
  }
  if (std::isinf(value)) {
    text->append(value < 0 ? "-inf" : "inf");
    return;
  }
  if (ndigits >= 0) value = Rounded(value, ndigits);
  if (std::signbit(value)) text->push_back('-');
  if (value == 0) {
    text->append("0.0");
    return;
  }
  // Python writes an exponent for decimal exponents below -4 and from 16 on.
  const Decimal decimal = ShortestDecimal(std::fabs(value));
  if (decimal.point - 1 < -4 || decimal.point - 1 >= 16) {
    AppendScientific(decimal, text);
  } else {
    AppendPositional(decimal, text);
  }
}

void AppendInteger(int64_t value, std::string* text) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  text->append(digits, end.ptr);
}

void AppendCell(std::string_view cell, std::string* text) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
    text->append(cell);
    return;
  }
  text->push_back('"');
  for (char c : cell) {
    if (c == '"') text->push_back('"');
    text->push_back(c);
  }
  text->push_back('"');
}

}  // namespace stepwatch::vocabulary
