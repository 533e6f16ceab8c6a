// The budget in a config: accepted and refused values, and the places of refusals.

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

TEST_CASE("a budget is a share of the training time in per cent, and without the key there is none") {
  CHECK(Accepted(R"({"stepwatch": {"budget": {"percent": 1.0}}})").config.own.budget == Budget{1.0});
  CHECK(Accepted(R"({"stepwatch": {"budget": {"percent": 1e-6}}})").config.own.budget == Budget{1e-6});
  CHECK(Accepted(R"({"stepwatch": {"budget": {"percent": 100}}})").config.own.budget == Budget{100});
  CHECK_FALSE(Accepted(R"({"stepwatch": {}})").config.own.budget);
  CHECK_FALSE(Accepted("{}").config.own.budget);
}

TEST_CASE("a budget that is not right is refused where it is wrong") {
  struct Case {
    const char* marked;  // '^' before the place
    StatusCode code;
    const char* key;
    const char* part;
  };
  const Case cases[] = {
      {R"(^1.0)", kType, "", R"(an object such as {"percent": 1.0})"},
      {R"(^{})", kType, "", R"(an object such as {"percent": 1.0})"},
      {R"(^[{"percent": 1.0}])", kType, "", R"(an object such as {"percent": 1.0})"},
      {R"(^null)", kType, "", R"(an object such as {"percent": 1.0})"},
      {R"({^"precent": 1.0})", kType, ".precent", R"((did you mean "percent"?))"},
      {R"({"percent": 1.0, ^"seconds": 3})", kType, ".seconds", R"("percent")"},
      {R"({"percent": ^"1%"})", kType, ".percent", "a number above 0 and at most 100"},
      {R"({"percent": ^true})", kType, ".percent", "a number above 0 and at most 100"},
      {R"({"percent": ^0})", kRange, ".percent", "found 0"},
      {R"({"percent": ^-0.0})", kRange, ".percent", "a number above 0 and at most 100"},
      {R"({"percent": ^-1.5})", kRange, ".percent", "a number above 0 and at most 100"},
      {R"({"percent": ^100.001})", kRange, ".percent", "a number above 0 and at most 100"},
      {R"({"percent": ^99999999999999999999})", kRange, ".percent", "a number above 0 and at most 100"},
  };
  for (const Case& each : cases) {
    const Status refusal = RefusalAtMark(R"({"stepwatch": {"budget": )" + std::string(each.marked) + "}}");
    INFO(refusal.ToString());
    CHECK(refusal.code() == each.code);
    CHECK(refusal.place().key == "stepwatch.budget" + std::string(each.key));
    CHECK(Has(refusal.message(), each.part));
  }
}

}  // namespace
}  // namespace stepwatch::config
