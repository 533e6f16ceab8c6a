// The budget in a config: what is taken, what is refused, and where.

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
    const char* says;
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
    const MarkedText unmarked = Unmark(R"({"stepwatch": {"budget": )" + std::string(each.marked) + "}}");
    INFO(unmarked.text);
    const Status refusal = RefusalOf(unmarked.text);
    CHECK(refusal.code() == each.code);
    CHECK(refusal.place().key == "stepwatch.budget" + std::string(each.key));
    CHECK(refusal.place().line == unmarked.line);
    CHECK(refusal.place().column == unmarked.column);
    INFO(refusal.message());
    CHECK(Contains(refusal.message(), each.says));
  }
}

}  // namespace
}  // namespace stepwatch::config
