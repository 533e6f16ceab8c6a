#include "operations/provision/dashboard.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

Panel Wide(int width, int height) {
  return {
      .title = "t", .description = "", .unit = "", .queries = {{"a", ""}, {"b", ""}}, .width = width, .height = height};
}

TEST_CASE("panels fill lines from the left, and a new line begins below the highest panel") {
  const Dashboard dashboard{.uid = "u",
                            .title = "d",
                            .runbook = "",
                            .variables = {},
                            .marks = {},
                            .rows = {{"one", {Wide(12, 4), Wide(12, 9), Wide(8, 3)}}, {"two", {Wide(24, 5)}}}};
  const Json json = DashboardJson(dashboard);
  std::vector<std::vector<int>> places;
  for (const Json& panel : json["panels"]) {
    const Json& place = panel["gridPos"];
    places.push_back({panel["id"], place["x"], place["y"], place["w"], place["h"]});
  }
  CHECK(places == std::vector<std::vector<int>>{{1, 0, 0, 24, 1},
                                                {2, 0, 1, 12, 4},
                                                {3, 12, 1, 12, 9},
                                                {4, 0, 10, 8, 3},
                                                {5, 0, 13, 24, 1},
                                                {6, 0, 14, 24, 5}});
  CHECK(json["panels"][1]["targets"][0]["refId"] == "A");
  CHECK(json["panels"][1]["targets"][1]["refId"] == "B");
  CHECK(json["id"].is_null());
}

}  // namespace
}  // namespace stepwatch::operations
