#include "controller/cli/text/status_text.h"

#include <nlohmann/json.hpp>

#include "controller/status/status_json.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::cli {
namespace {
using testing::Has;

Json Collecting() {
  status::JobStatus status;
  status.reload.run_id = "0123456789";
  status.world_size = 4;
  status.dynamic = true;
  status.uptime_seconds = 3725;
  status.monitor.state = RunState::kCollecting;
  status.monitor.plan_id = 3;
  status.monitor.step = 1041;
  status.monitor.collected = 5;
  status.reload.in_force = status::PlanStatus{
      .plan_id = 3, .config_sha256 = std::string(64, 'a'), .collect_times = 100, .step_interval = 10};
  status.config_path = "/x/config.json";
  status.reload.file_sha256 = std::string(64, 'a');
  status.step_seconds = 0.35;
  status.counts.ledger.produced = 1200;
  status.counts.ledger.written = 1188;
  status.counts.ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] = 12;
  return status::StatusJson(status);
}

TEST_CASE("the screen of a collecting job") {
  const std::string text = StatusText("7-1", Collecting());
  CHECK(text ==
        "job         7-1, rank 0 of 4, run 01234567, up 1 h 02 m\n"
        "state       COLLECTING, plan 3: 5/100 steps collected, 1 of 10\n"
        "step        1041, 350.0 ms per step recently\n"
        "config      /x/config.json, sha256 aaaaaaaaaaaa\n"
        "rows        1200 produced, 1188 written, 12 dropped (12 unsupported); measuring took 0.000 s\n");
  CHECK_FALSE(IsDegraded(Collecting()));
}

TEST_CASE("a pause is shown beside the state") {
  Json status = Collecting();
  status["paused"] = true;
  CHECK(Has(StatusText("7-1", status), "\nstate       COLLECTING, paused, plan 3: 5/100 steps collected, 1 of 10\n"));
}

TEST_CASE("what measuring costs, and its budget, are a line each") {
  status::JobStatus status;
  step::StepCost& cost = status.cost.total;
  cost = {.collected = 10, .steps = 100, .elapsed_ns = 10'050'000'000};
  cost.ns[static_cast<size_t>(SiteKind::kExpAvg)] = 1'000'000;
  cost.ns[static_cast<size_t>(SiteKind::kActv)] = 30'000'000;
  cost.ns[static_cast<size_t>(SiteKind::kGradReduced)] = 15'000'000;
  cost.ns[step::kBoundaryCost] = 4'000'000;
  status::BudgetStatus& budget = status.reload.budget.emplace();
  budget.percent = 1;
  budget.spent_percent = 0.5;
  std::string text = StatusText("7-1", status::StatusJson(status));
  CHECK(
      Has(text,
          "\ncost        5.0 ms per collected step, 0.5 % of the training time; of that actv 60 %, grad_reduced 30 %, "
          "boundary 8 %\n"));
  CHECK(Has(text, "\nbudget      1 % of the training time, 0.5 % used recently\n"));
  status.cost.device_ns = 20'000'000;
  CHECK(Has(StatusText("7-1", status::StatusJson(status)), "boundary 8 %; 40 % on devices\n"));
  budget.factor = 8;
  budget.left_out = {SiteKind::kActv, SiteKind::kExpAvg};
  budget.spent_percent = 1.25;
  budget.why_not = "ranks";
  text = StatusText("7-1", status::StatusJson(status));
  CHECK(
      Has(text,
          "\nbudget      1 % of the training time, 1.25 % used recently, 8 times as long an interval as in the config, "
          "without actv, exp_avg; report only: ranks\n"));
  for (const Json& odd : {Json{{"cost", 3}, {"budget", "x"}}, Json{{"cost", {{"collected", 1}, {"parts", 2}}}},
                          Json{{"budget", {{"percent", 1}, {"left_out", {1, nullptr}}}}}})
    CHECK(Has(StatusText("7-1", odd), "job "));
}

TEST_CASE("a refusal and its place are on the screen, and the job is degraded") {
  Json status = Collecting();
  status["refusal"] = {{"key", "ops"}, {"line", 2}, {"column", 10}, {"message", "is no list"}, {"sha256", "b"}};
  status["drift"] = true;
  status["drift_reason"] = "the content of the config file was refused";
  status["not_begun"] = "this window was done at step 5 in an earlier start of this job";
  const std::string text = StatusText("7-1", status);
  CHECK(Has(text, "\nrefused     line 2, column 10, \"ops\": is no list\n"));
  CHECK(Has(text, "\ndrift       the content of the config file was refused\n"));
  CHECK(Has(text, "\nnot begun   this window was done at step 5 in an earlier start of this job\n"));
  CHECK(IsDegraded(status));
}

TEST_CASE("an answer of any shape is shown as far as it goes, and cannot write to the terminal") {
  for (const Json& odd : {Json::object(), Json{{"state", 3}, {"plan", "x"}, {"ledger", Json::array()}, {"step", 1.5}}})
    CHECK(Has(StatusText("7-1", odd), "job "));
  Json status = Collecting();
  status["config_path"] = "/x\x1b[2J\r\n.json";
  CHECK(Has(StatusText("7-1", status), "/x\\x1b[2J\\x0d\\x0a.json"));
}

TEST_CASE("the table lines up, and a job that does not answer has its reason") {
  const std::string text =
      PsText({{"7-1", "/run/7-1.sock", 7, json::Dump(Collecting()), ""}, {"123456-1", "/run/x", 123456, "", "silent"}});
  CHECK(text ==
        "JOB       RANK  STATE       STEP  PLAN  COLLECTED  CONFIG\n"
        "7-1       0/4   COLLECTING  1041  3     5/100      /x/config.json\n"
        "123456-1  -     no answer   -     -     -          silent\n");
  Json paused = Collecting();
  paused["paused"] = true;
  CHECK(Has(PsText({{"7-1", "/run/7-1.sock", 7, json::Dump(paused), ""}}), "  COLLECTING, paused  1041  "));
}

TEST_CASE("an event is one line") {
  CHECK(EventLine("applied", {{"t", 1.5}, {"plan", 2}, {"step", 41}}) == "     1.500 s  applied     plan 2  step 41");
  CHECK(EventLine("gap", {{"missed", 400}}) == "              400 events are no longer kept");
  CHECK(Has(EventLine("refused", {{"t", 1}, {"line", 2}, {"column", 3}, {"key", "ops"}, {"message", "no\nlist"}}),
            "line 2, column 3, \"ops\": no\\x0alist"));
}

}  // namespace
}  // namespace stepwatch::cli
