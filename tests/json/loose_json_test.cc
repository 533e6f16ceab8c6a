#include "src/json/loose_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace stepwatch::json {
namespace {

TEST_CASE("a number is read in both spellings of those that are not finite") {
  CHECK(LooseNumber(Json(2.5)) == 2.5);
  CHECK(LooseNumber(Json(3)) == 3.0);
  for (const char* text : {"nan", "NaN", "-nan"}) CHECK(std::isnan(LooseNumber(Json(text)).value()));
  for (const char* text : {"inf", "+inf", "Infinity"}) CHECK(LooseNumber(Json(text)) == HUGE_VAL);
  for (const char* text : {"-inf", "-Infinity"}) CHECK(LooseNumber(nlohmann::json(text)) == -HUGE_VAL);
  for (const Json& value : {Json(), Json(true), Json(""), Json("1.5"), Json("infinite"), Json::array()})
    CHECK(!LooseNumber(value));
}

TEST_CASE("a number that is not finite is written as text, and read again") {
  CHECK(Number(0.5) == 0.5);
  for (const double number : {HUGE_VAL, -HUGE_VAL}) CHECK(LooseNumber(Number(number)) == number);
  CHECK(Number(std::nan("")) == "nan");
}

TEST_CASE("JSON of Python with NaN and half surrogates is mended") {
  CHECK(MendJson(R"({"a": NaN, "b": [-Infinity, Infinity], "c": "NaN"})") ==
        R"({"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "NaN"})");
  CHECK(MendJson(R"("\ud83d\ude00 \ud83d")") == "\"\\ud83d\\ude00 \xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace stepwatch::json
