// Alarms and formats through the whole monitor.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/api/job.h"
#include "tests/sinks/event_reader.h"

namespace stepwatch::testing {
namespace {

// Every norm of the synthetic model is above zero.
const std::string kAlways = R"(, "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}]})";
const std::string kAlwaysDumped =
    R"(, "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}], "dump": true})";

std::string AnomalyPath(const Job& job) {
  return job.options.output_dir + "/anomaly_detected/rank0/anomaly.json";
}

TEST_CASE("every alarm is an event with plan, step and a sentence, before the plan is drained") {
  StartedJob job(ConfigText({.collect_times = 2}, kAlways));
  job.TrainSteps(4);
  job.Close();
  const auto alarms = job.Events(EventKind::kAlarm);
  REQUIRE(alarms.size() == 2 * 2 * 2);
  CHECK(alarms[0].plan_id == 1);
  CHECK(alarms[0].step == 1);
  CHECK(alarms[7].step == 2);
  CHECK(alarms[0].message.find("Rule AnomalyNan reports anomaly signal in ('0:layers.1.weight/rank0/acc_grad', 'norm') "
                               "at step 1, current value ") == 0);
  CHECK(EventText(alarms[0]) == "> " + alarms[0].message);
  CHECK(alarms[7].t <= job.Events(EventKind::kDrained).at(0).t);
  CHECK_FALSE(std::filesystem::exists(job.options.output_dir + "/anomaly_detected"));
}

TEST_CASE("with dump the file is complete when the plan is drained, and goes on with the next plan") {
  Job job(ConfigText({.collect_times = 2}, kAlwaysDumped));
  job.options.pp_stage = 1;
  job.options.group_mates = {0, 4};
  job.Start();
  job.TrainSteps(4);
  job.Settle();
  const auto dump = nlohmann::json::parse(Contents(AnomalyPath(job)));
  CHECK(dump.size() == 8);
  const auto& entry = dump.at("0:layers.1.weight/rank0/acc_grad_norm_step_1_call_0");
  CHECK(entry["pp_stage"] == 1);
  CHECK(entry["group_mates"] == nlohmann::json{0, 4});
  job.Edit(ConfigText({.collect_times = 1}, kAlwaysDumped));
  job.TrainSteps(3);
  job.Close();
  CHECK(nlohmann::json::parse(Contents(AnomalyPath(job))).size() == 12);
}

TEST_CASE("the mates of a rank whose front end names no group are the ranks of the job") {
  const int world_size = GENERATE(1, 3);
  Job job(ConfigText({.collect_times = 1}, kAlwaysDumped));
  job.options.world_size = world_size;
  job.Start();
  job.TrainSteps(2);
  job.Close();
  const auto dump = nlohmann::json::parse(Contents(AnomalyPath(job)));
  REQUIRE_FALSE(dump.empty());
  for (const auto& [key, entry] : dump.items())
    CHECK(entry["group_mates"] == (world_size == 1 ? nlohmann::json{0} : nlohmann::json{0, 1, 2}));
}

TEST_CASE("an anomaly.json that cannot be written is reported once and costs no row") {
  Job job(ConfigText({.collect_times = 3}, kAlwaysDumped));
  std::filesystem::create_directories(job.options.output_dir);
  WriteInPlace(job.options.output_dir + "/anomaly_detected", "a file where the directory should be");
  job.Start();
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kDegraded));
  CHECK(Has(job.Events(EventKind::kDegraded)[0].message, "anomaly_detected"));
  REQUIRE(job.WaitFor(EventKind::kDrained));
  std::filesystem::remove(job.options.output_dir + "/anomaly_detected");
  REQUIRE(job.WaitFor(EventKind::kRecovered));
  job.Close();
  CHECK(job.Count(EventKind::kDegraded) == 1);
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
  CHECK(nlohmann::json::parse(Contents(AnomalyPath(job))).size() == 12);
}

TEST_CASE("an edit of the format holds from its first step") {
  Job job(ConfigText({.collect_times = 1}, R"(, "format": "tensorboard")"));
  job.counts_rows = false;
  job.Start();
  job.TrainSteps(2);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 1}, R"(, "format": "api")"));
  job.TrainSteps(2);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 1}));
  job.TrainSteps(2);
  job.Close();
  CHECK(sinks::test::ReadPoints(sinks::test::EventFiles(job.output_dir).at(0)).size() == 4);
  CHECK(job.Steps("grad_reduced") == Steps{5});
}

TEST_CASE("the format api writes nothing, judges alarms and keeps the latest values") {
  StartedJob job(ConfigText({.collect_times = 3}, R"(, "format": "api")" + kAlways));
  job.TrainSteps(6);
  job.Settle();
  CHECK(job.monitor->GetStatus().output_dir.empty());
  // The values are kept before the first question.
  const auto latest = job.monitor->Latest(SiteKind::kGradReduced);
  REQUIRE(latest.size() == 2);
  CHECK(latest[0].name == "layers.0.weight");
  CHECK(latest[0].record.step == 3);
  CHECK(job.monitor->Close(std::chrono::seconds(10)).ok());
  job.monitor.reset();
  CHECK_FALSE(std::filesystem::exists(job.options.output_dir));
  CHECK(job.Count(EventKind::kAlarm) == 12);
  CHECK(job.Count(EventKind::kDegraded) == 0);
  const auto drained = job.Events(EventKind::kDrained);
  REQUIRE(drained.size() == 1);
  CHECK(drained[0].ledger.written == 12);
  CHECK(drained[0].ledger.dropped_total() == 0);
}

TEST_CASE("alarms of the format api are dumped if the config requests it") {
  Job job(ConfigText({.collect_times = 1}, R"(, "format": "api")" + kAlwaysDumped));
  job.counts_rows = false;
  job.Start();
  job.TrainSteps(3);
  job.Close();
  CHECK(nlohmann::json::parse(Contents(AnomalyPath(job))).size() == 4);
  CHECK(std::distance(std::filesystem::directory_iterator(job.options.output_dir), {}) == 1);
}

}  // namespace
}  // namespace stepwatch::testing
