#include "controller/control_socket/json_values.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("the status of a fresh monitor has nulls") {
  const Json json = StatusJson({});
  CHECK(json["version"] == 1);
  CHECK(json["state"] == "IDLE");
  for (const char* name :
       {"plan_id", "plan", "armed", "at_step", "collect_times", "file_sha256", "refusal", "fault", "output_dir",
        "drift_reason", "not_begun", "job_id", "step_seconds", "write_back", "proposed_step"})
    CHECK(json[name].is_null());
  CHECK(json["drift"] == false);
  CHECK(json["ledger"]["dropped"]["ring_full"] == 0);
}

TEST_CASE("a refusal has its place, an armed plan its step") {
  JobStatus status;
  status.refusal = RefusedEdit{"abc", "is no list", {"ops", 2, 10}};
  status.armed = PlanFacts{.plan_id = 3, .config_sha256 = "def", .collect_times = 5, .at_step = 41};
  status.drift = "the file was refused";
  const Json json = StatusJson(status);
  CHECK(json["refusal"]["line"] == 2);
  CHECK(json["refusal"]["column"] == 10);
  CHECK(json["refusal"]["key"] == "ops");
  CHECK(json["at_step"] == 41);
  CHECK(json["armed"]["plan_id"] == 3);
  CHECK(json["drift"] == true);
}

TEST_CASE("the cost of measuring is shown by kinds, and the budget with its effect") {
  JobStatus status;
  CHECK(StatusJson(status)["cost"].is_null());
  CHECK(StatusJson(status)["budget"].is_null());
  status.cost = CostFacts{.collected = 4,
                          .steps = 40,
                          .seconds = 0.5,
                          .step_seconds = 20,
                          .parts = {{"actv", 0.4, 0.2}, {"boundary", 0.1, 0.025}}};
  status.budget.emplace();
  status.budget->percent = 1;
  status.budget->factor = 10;
  status.budget->left_out = {"exp_avg"};
  status.budget->spent_percent = 2.5;
  status.budget->decisions = 2;
  Json json = StatusJson(status);
  CHECK(json["cost"]["percent"] == 2.5);
  CHECK(json["cost"]["device_seconds"] == 0);
  CHECK(json["cost"]["parts"] == Json{{"actv", 0.4}, {"boundary", 0.1}});
  CHECK(json["cost"]["per_collected_step"] == Json{{"actv", 0.2}, {"boundary", 0.025}});
  CHECK(json["budget"]["acting"] == true);
  CHECK(json["budget"]["reason"].is_null());
  CHECK(json["budget"]["interval_factor"] == 10);
  CHECK(json["budget"]["left_out"] == Json{"exp_avg"});
  CHECK(json["budget"]["spent_percent"] == 2.5);
  status.budget->why_not = "ranks";
  status.budget->spent_percent.reset();
  status.cost->step_seconds = 0;
  json = StatusJson(status);
  CHECK(json["budget"]["acting"] == false);
  CHECK(json["budget"]["reason"] == "ranks");
  CHECK(json["budget"]["spent_percent"].is_null());
  CHECK(json["cost"]["percent"].is_null());
}

TEST_CASE("numbers that JSON cannot express are texts") {
  LatestValue value;
  value.record.value_count = 4;
  value.record.values[0].stat = Stat::kNorm;
  value.record.values[0].f64 = std::nan("");
  value.record.values[1].stat = Stat::kMax;
  value.record.values[1].f64 = -std::numeric_limits<double>::infinity();
  value.record.values[2].stat = Stat::kMean;
  value.record.values[2].f64 = 0.5;
  value.record.values[3].stat = Stat::kNans;
  value.record.values[3].is_integer = true;
  value.record.values[3].i64 = 7;
  const Json values = LatestJson(SiteKind::kActv, {value})["values"][0]["values"];
  CHECK(values["norm"] == "NaN");
  CHECK(values["max"] == "-Infinity");
  CHECK(values["mean"] == 0.5);
  CHECK(values["nans"] == 7);
}

TEST_CASE("bytes that are not UTF-8 do not end an answer") {
  JobStatus status;
  status.config_path = "/tmp/\xff\xfe.json";
  CHECK(json::Parse(json::Dump(StatusJson(status))).ok());
}

TEST_CASE("JSON from outside is refused when it is none, and when it is too deep") {
  CHECK(json::Parse("{\"a\": [1, \"[[[[\\\"[[\"]}").ok());
  CHECK_FALSE(json::Parse("{").ok());
  CHECK_FALSE(json::Parse("").ok());
  CHECK(json::Parse(std::string(32, '[') + std::string(32, ']')).ok());
  CHECK(json::Parse(std::string(33, '[') + std::string(33, ']')).status().code() == StatusCode::kExhausted);
  CHECK_FALSE(json::Parse(std::string(1 << 20, '[')).ok());
}

}  // namespace
}  // namespace stepwatch::control_socket
