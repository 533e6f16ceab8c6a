#include "controller/cli/ranks.h"

#include <nlohmann/json.hpp>

#include "controller/cli/find_job.h"
#include "controller/cli/text/status_text.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::cli {
namespace {
using testing::Has;

const Json kAnswer = Json::parse(R"({"version": 1, "run_id": "0123456789", "world_size": 12, "complete": false,
  "alone": null, "reasons": [], "missing": [{"rank": 4, "reason": "no answer within 1500 ms"}],
  "ranks": [{"rank": 0, "state": "COLLECTING", "paused": true, "step": 41, "plan_id": 3, "collected": 5, "heard_ms": 0,
             "config_sha256": "aaaaaaaaaaaaaaaa", "fault": null},
            {"rank": 1, "state": "ARMED", "step": 41, "plan_id": null, "armed_plan_id": 3, "at_step": 44,
             "heard_ms": 12, "fault": "disk full"}]})");

TEST_CASE("each rank has a line, and each missing one a reason") {
  const std::string text = RanksText(kAnswer);
  CHECK(Has(text, "run 01234567, 2 of 12 ranks\n"));
  CHECK(Has(text, "aaaaaaaaaaaa "));
  CHECK(Has(text, "COLLECTING, paused"));
  CHECK(Has(text, "3 at 44"));
  CHECK(Has(text, "12 ms"));
  CHECK(Has(text, "disk full"));
  CHECK(Has(text, "rank 4: no answer within 1500 ms\n"));
}

TEST_CASE("an answer about ranks of any shape is shown as far as it goes, and cannot write to the terminal") {
  for (const Json& odd : {Json::object(), Json::array(), Json{{"ranks", 3}, {"missing", {{"rank", "x"}}}},
                          Json{{"ranks", {1, Json::object(), Json::array()}}}}) {
    CHECK(Has(RanksText(odd), "RANK"));
    CHECK(Has(DryRunText(odd), "ranks would accept"));
  }
  Json ill = kAnswer;
  ill["ranks"][1]["fault"] = "a\x1b[2J\n";
  CHECK(Has(RanksText(ill), "a\\x1b[2J\\x0a"));
  Json many = kAnswer;
  for (int i = 0; i < 1000; ++i) many["missing"].push_back({{"rank", i}, {"reason", "x"}});
  CHECK(Has(RanksText(many), "and 993 more ranks\n"));
}

TEST_CASE("a dry run is shown with its reasons") {
  const Json trials = Json::parse(R"({"sha256": "abcdefabcdefabcdef", "accepted": 2, "world_size": 3, "error": null,
    "alone": null, "reasons": [{"rank": 1, "reason": "no module is called \"x\""}]})");
  CHECK(DryRunText(trials) ==
        "2 of 3 ranks would accept abcdefabcdef; the config is unchanged\nrank 1: no module is called \"x\"\n");
  const Json refused = Json::parse(R"({"sha256": "ab", "error": {"message": "is no list", "line": 3, "column": 5}})");
  CHECK(DryRunText(refused) == "ab refused at line 3, column 5: is no list\n");
}

TEST_CASE("ranks that share no store are put together, each once") {
  const auto answer = [](int rank) {
    Json json = Json::parse(R"({"world_size": 3, "complete": false, "alone": "x", "reasons": [], "ranks": []})");
    json["ranks"].push_back({{"rank", rank}});
    return json;
  };
  const Json two = CombineRanks({answer(2), answer(0), answer(0), Json::object(), Json{{"ranks", {{{"rank", "x"}}}}}});
  CHECK(two["ranks"].size() == 2);
  CHECK(two["ranks"][0]["rank"] == 0);
  CHECK(two["complete"] == false);
  CHECK(Has(two["alone"].get<std::string>(), "on this host"));
  CHECK(CombineRanks({answer(2), answer(0), answer(1)})["complete"] == true);
}

TEST_CASE("the ranks of one run are listed below each other") {
  const auto job = [](const std::string& name, const std::string& run, int rank) {
    return control_socket::FoundJob{
        name, "/run/" + name + ".sock", 1,
        R"({"run_id": ")" + run + R"(", "world_size": 4, "state": "IDLE", "rank": )" + std::to_string(rank) + "}", ""};
  };
  const std::vector<control_socket::FoundJob> jobs = {job("1-1", "aaaaaaaaaa", 2),
                                                      {"5-1", "/run/5-1.sock", 5, "", "no answer"},
                                                      job("2-1", "bbbb", 0),
                                                      job("3-1", "aaaaaaaaaa", 0)};
  const std::vector<JobGroup> groups = GroupByRun(jobs);
  REQUIRE(groups.size() == 3);
  REQUIRE(groups[0].jobs.size() == 2);
  CHECK(groups[0].jobs[0].name == "3-1");
  CHECK(groups[0].world_size == 4);
  CHECK(groups[1].run_id.empty());
  const std::string text = PsText(jobs);
  CHECK(Has(text, "run aaaaaaaa  2/4 ranks"));
  CHECK(text.find("  3-1") < text.find("  1-1"));
}

}  // namespace
}  // namespace stepwatch::cli
