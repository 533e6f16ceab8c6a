#include "src/logs/scan.h"

#include <cmath>
#include <string>

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

std::optional<double> NumberIn(std::string_view text, std::string* rest = nullptr) {
  const auto number = scan::TakeNumber(&text);
  if (rest != nullptr) *rest = std::string(text);
  return number;
}

TEST_CASE("numbers are read in each form that trainers print") {
  CHECK(NumberIn("1.234") == 1.234);
  CHECK(NumberIn("-1.5e-04") == -1.5e-4);
  CHECK(NumberIn("1E-04") == 1e-4);
  CHECK(NumberIn("+2e+01") == 20.0);
  CHECK(NumberIn("12,345.5") == 12345.5);
  CHECK(NumberIn("1,234,567") == 1234567.0);
  CHECK(NumberIn(".5") == 0.5);
  CHECK(NumberIn("3.") == 3.0);
  CHECK(NumberIn("'0.25'") == 0.25);
  CHECK(NumberIn("tensor(2.5, device='cuda:0')") == 2.5);
}

TEST_CASE("numbers that are not finite are read") {
  CHECK(std::isnan(NumberIn("nan").value_or(0)));
  CHECK(std::isnan(NumberIn("-nan").value_or(0)));
  CHECK(std::isnan(NumberIn("NaN.0").value_or(0)));
  CHECK(std::isnan(NumberIn("nan.0").value_or(0)));
  CHECK(NumberIn("inf") == HUGE_VAL);
  CHECK(NumberIn("-Infinity") == -HUGE_VAL);
  CHECK(NumberIn("1e999") == HUGE_VAL);
  CHECK(NumberIn("1e-999") == 0.0);
}

TEST_CASE("a text that only begins as a number is none") {
  CHECK_FALSE(NumberIn("1.2.3"));
  CHECK_FALSE(NumberIn("nanoseconds"));
  CHECK_FALSE(NumberIn("information"));
  CHECK_FALSE(NumberIn("'1.5"));
  CHECK_FALSE(NumberIn("-"));
  CHECK_FALSE(NumberIn("."));
  CHECK_FALSE(NumberIn(""));
}

TEST_CASE("the text after a number stays") {
  std::string rest;
  CHECK(NumberIn("0.5s", &rest) == 0.5);
  CHECK(rest == "s");
  CHECK(NumberIn("12, 13", &rest) == 12.0);
  CHECK(rest == ", 13");
  CHECK(NumberIn("1e-4, x", &rest) == 1e-4);
  CHECK(rest == ", x");
  CHECK(NumberIn("2emb", &rest) == 2.0);
  CHECK(rest == "emb");
}

}  // namespace
}  // namespace stepwatch::logs
