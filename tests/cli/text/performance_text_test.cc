// The report on screen and as a page.

#include "controller/cli/text/performance_text.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a report without any number shows dashes and no zero in their place") {
  for (const Json& report : {Json::object(), Json::array(), Json{{"step_seconds", 5}, {"plots", {1, "x"}}}}) {
    const std::string text = PerformanceText(report);
    CHECK(Holds(text, "goodput                -"));
    CHECK(Holds(text, "MFU                    -"));
    const std::string page = PerformancePage(report);
    CHECK(Holds(page, "<th scope=\"row\">goodput</th><td>-</td>"));
    CHECK_FALSE(Holds(page, "nan"));
  }
}

TEST_CASE("foreign text is escaped in the page and refers to nothing outside") {
  const std::string evil = "<script>alert(1)</script><img src=http://x/>\"'&";
  const Json point = {1.0, 2.0, 3.0, 4.0};
  const Json report = {{"run", evil},
                       {"seconds", 100},
                       {"lost_seconds", {{evil, 5}}},
                       {"parts", {{evil, 5}}},
                       {"findings", {evil}},
                       {"evaluations", {{{"name", evil}, {"last", 1}}}},
                       {"interruptions", {{{"cause", evil}, {"incident_kind", evil}, {"incident", evil}}}},
                       {"losses", {{{"series", evil}, {"over", evil}, {"verdict", evil}, {"slope", 1}}}},
                       {"schedule", {{"kind", evil}}},
                       {"legacy", {{"score", 5}, {"rating", evil}}},
                       {"plots", {{{"name", evil}, {"unit", evil}, {"x", evil}, {"points", {point, point}}}}}};
  const std::string page = PerformancePage(report);
  CHECK_FALSE(Holds(page, "<script"));
  CHECK_FALSE(Holds(page, "<img"));
  CHECK(Holds(page, "&lt;script&gt;"));
  CHECK_FALSE(Holds(page, "href="));
  CHECK_FALSE(Holds(page, "url("));
}

TEST_CASE("a plot of odd numbers is still a plot") {
  const auto page = [](const Json& points) {
    return PerformancePage({{"plots", {{{"name", "loss"}, {"unit", ""}, {"x", "step"}, {"points", points}}}}});
  };
  CHECK(Holds(page({{1, 0, 0, 0}}), "<polyline"));
  CHECK(Holds(page({{1, -5, -5, -5}, {2, -5, -5, -5}}), "<polyline"));
  CHECK(Holds(page({{1, 1e-30, 1e-30, 1e-30}, {1e18, 1e30, 1e30, 1e30}}), "<polyline"));
  CHECK_FALSE(Holds(page({{1, nullptr, 2, 3}}), "<polyline"));
  CHECK_FALSE(Holds(page(Json::array()), "<figure"));
}

}  // namespace
}  // namespace stepwatch::cli
