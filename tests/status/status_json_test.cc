#include "controller/status/status_json.h"

#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::status {
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
  status.reload.file_sha256 = "abc";
  status.reload.refusal = Status(StatusCode::kInvalid, "is no list", {"ops", 2, 10});
  status.reload.armed = PlanStatus{.plan_id = 3, .config_sha256 = "def", .collect_times = 5, .at_step = 41};
  const Json json = StatusJson(status);
  CHECK(json["refusal"]["sha256"] == "abc");
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
  constexpr auto kActv = static_cast<size_t>(SiteKind::kActv);
  status.cost.total = {.collected = 4, .steps = 40, .elapsed_ns = 20'500'000'000};
  status.cost.total.ns[kActv] = 400'000'000;
  status.cost.total.ns[step::kBoundaryCost] = 100'000'000;
  status.cost.per_collected[kActv] = 0.2;
  status.cost.per_collected[step::kBoundaryCost] = 0.025;
  BudgetStatus& budget = status.reload.budget.emplace();
  budget.percent = 1;
  budget.factor = 10;
  budget.left_out = {SiteKind::kExpAvg};
  budget.spent_percent = 2.5;
  budget.decisions = 2;
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
  budget.why_not = "ranks";
  budget.spent_percent.reset();
  status.cost.total.elapsed_ns = 0;
  json = StatusJson(status);
  CHECK(json["budget"]["acting"] == false);
  CHECK(json["budget"]["reason"] == "ranks");
  CHECK(json["budget"]["spent_percent"].is_null());
  CHECK(json["cost"]["percent"].is_null());
}

TEST_CASE("bytes that are no UTF-8 do not end an answer") {
  JobStatus status;
  status.config_path = "/tmp/\xff\xfe.json";
  CHECK(json::Parse(json::Dump(StatusJson(status))).ok());
}

}  // namespace
}  // namespace stepwatch::status
