// Alarms on the drain thread: judged once a frame, reported, kept, and never in the way of rows.
#include "src/drain/alert_manager.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/drain/run_fixture.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::drain {
namespace {

using nlohmann::json;
using sinks::test::Contents;
using sinks::test::TemporaryDirectory;

constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

std::shared_ptr<plan::Plan> PlanWith(PlanId id, std::vector<config::AlertRule> rules, bool dump, size_t sites = 2) {
  auto plan = std::make_shared<plan::Plan>(*MakePlan({id, {0, 1, 1000000}, sites}));
  for (size_t i = 0; i < sites; ++i) plan->layout.sites[i].name = "p" + std::to_string(i);
  plan->layout.stats = {Stat::kNorm, Stat::kMean};
  plan->config.alert = {std::move(rules), dump};
  return plan;
}

// A run with an alarm desk of rank 5.
class AlarmRun : public Run {
 public:
  explicit AlarmRun(const std::string& place = "") : place_(place.empty() ? base_ / "out" : place) {
    auto file = std::make_unique<output::AnomalyFile>(AnomalyDirectory(place_, 5));
    drain.SetAlertManager(std::make_unique<AlertManager>(alerts::AlarmOrigin{5, 2, {4, 5}}, std::move(file), &board));
  }
  void PublishAlerts(std::shared_ptr<plan::Plan> plan) {
    Put(MakePending(std::move(plan)));
    plane.plans.EndStep();
  }
  void Show(SiteId site, float value) { Observe(site, DenseView(&value, DType::kFloat32, nullptr, 0)); }
  void Step(const std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) Show(static_cast<SiteId>(i), values[i]);
    plane.plans.EndStep();
  }
  json Dump() const { return json::parse(Contents(AnomalyDirectory(place_, 5) + "/anomaly.json")); }
  const std::string& place() const { return place_; }

 private:
  TemporaryDirectory base_;
  const std::string place_;
};

TEST_CASE("an alarm is one sentence, in the words that msProbe uses") {
  AlarmRun run;
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyTurbulence", 0.5}, {"AnomalyNan", {}}}, false));
  run.Step({1, 1});
  run.Step({2.5, kFloatNan});
  run.Finish();
  REQUIRE(run.alarms.size() == 1);
  CHECK(run.alarms[0].plan_id == 1);
  CHECK(run.alarms[0].step == 2);
  const std::string head = "Rule AnomalyTurbulence reports anomaly signal in ('0:p0/rank5/post_grad', ";
  const std::string nan = "Rule AnomalyNan reports anomaly signal in ('0:p1/rank5/post_grad', ";
  CHECK(run.alarms[0].sentences ==
        std::vector<std::string>{head + "'norm') at step 2, current value 2.5, history mean 1.0.",
                                 head + "'mean') at step 2, current value 2.5, history mean 1.0.",
                                 nan + "'norm') at step 2, current value nan, history mean 1.0.",
                                 nan + "'mean') at step 2, current value nan, history mean 1.0."});
  CHECK_FALSE(std::filesystem::exists(run.place()));
}

TEST_CASE("with dump every alarm has its own entry, with the place it came from") {
  AlarmRun run;
  run.Start();
  auto plan = PlanWith(1, {{"AnomalyNan", {}}}, true);
  plan->layout.sites[1] = {SiteKind::kActv, Port::kInput, 0, 1, "fc.input"};
  run.PublishAlerts(plan);
  run.Show(0, 1);
  run.Produced(1, 1);
  Record record;
  float nan = kFloatNan;
  Observation at{1, 3};
  at.element = 1;
  REQUIRE(run.plane.recorder.Measure(at, DenseView(&nan, DType::kFloat32, nullptr, 0), &record));
  run.plane.recorder.Enqueue(record);
  run.plane.plans.EndStep();
  run.Finish();
  const json dump = run.Dump();
  REQUIRE(dump.size() == 2);
  const std::string tag = "1:fc.input_1:3/rank5/actv";
  const json& entry = dump.at(tag + "_norm_step_1_call_1");
  CHECK(dump.contains(tag + "_mean_step_1_call_1"));
  CHECK(entry["rank"] == 5);
  CHECK(entry["step"] == 1);
  CHECK(entry["micro_step"] == 3);
  CHECK(entry["pp_stage"] == 2);
  CHECK(entry["vpp_stage"] == 1);
  CHECK(entry["call_id"] == 1);
  CHECK(entry["tag_name"] == tag);
  CHECK(entry["message"] == run.alarms.at(0).sentences.at(0));
  CHECK(entry["group_mates"] == json{4, 5});
  CHECK(entry.size() == 9);
}

TEST_CASE("the file is there from the first plan with dump on, and grows over plans") {
  AlarmRun run;
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyNan", {}}}, true));
  REQUIRE(run.WaitBegun(1));
  CHECK(Eventually([&] { return std::filesystem::exists(AnomalyDirectory(run.place(), 5) + "/anomaly.json"); }));
  CHECK(run.Dump() == json::object());
  run.Step({kFloatNan});
  run.PublishAlerts(PlanWith(2, {{"AnomalyNan", {}}}, true));
  REQUIRE(run.WaitDrained(1));
  CHECK(run.Dump().size() == 2);
  run.Step({kFloatNan});
  run.Finish();
  CHECK(run.Dump().size() == 4);
}

TEST_CASE("histories survive edits, rules belong to their plan") {
  AlarmRun run;
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyTurbulence", 10.0}}, false));
  run.Step({1});
  run.PublishAlerts(PlanWith(2, {{"AnomalyTurbulence", 0.5}}, false, 3));
  run.Step({2});
  run.Finish();
  REQUIRE(run.alarms.size() == 1);
  CHECK(run.alarms[0].plan_id == 2);
}

TEST_CASE("missing tensors raise no alarm") {
  AlarmRun run;
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyNan", {}}}, false));
  run.Produced(1, 1);
  run.plane.recorder.ObserveMissing({0});
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.alarms.empty());
  CHECK(run.sink->records().size() == 1);
}

TEST_CASE("of one step the first thousand alarms are reported, the first five thousand kept, and all counted") {
  AlarmRun run;
  run.Start();
  auto plan = PlanWith(1, {{"AnomalyNan", {}}}, true, 1010);
  plan->layout.stats = {Stat::kNorm, Stat::kMean, Stat::kMin, Stat::kMax, Stat::kAbsMax};
  run.PublishAlerts(plan);
  run.Step(std::vector<float>(600, kFloatNan));
  run.Step(std::vector<float>(1010, kFloatNan));
  run.Finish();
  REQUIRE(run.alarms.size() == 2);
  CHECK(run.alarms[0].sentences.size() == 1000);
  CHECK(run.alarms[0].further == 2000);
  CHECK(run.alarms[1].further == 4050);
  CHECK(run.Dump().size() == 3000 + 5000);
}

TEST_CASE("a file that cannot be written is reported once and tried again, and rows go on") {
  TemporaryDirectory base;
  sinks::test::WriteInPlace(base / "out", "a file where the directory should be");
  AlarmRun run(base / "out");
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyNan", {}}}, true));
  run.Step({kFloatNan});
  REQUIRE(Eventually([&] { return run.sink->records().size() == 1; }));
  run.Step({kFloatNan});
  REQUIRE(Eventually([&] { return run.sink->records().size() == 2; }));
  std::filesystem::remove(base / "out");
  run.Finish();
  CHECK(run.file_failures == 1);
  CHECK(run.file_recoveries == 1);
  CHECK(run.Dump().size() == 4);
  CHECK(run.drained.at(1).ledger.written == 2);
}

TEST_CASE("a file that never can be written does not keep the run from ending") {
  TemporaryDirectory base;
  sinks::test::WriteInPlace(base / "out", "a file where the directory should be");
  AlarmRun run(base / "out");
  run.Start();
  run.PublishAlerts(PlanWith(1, {{"AnomalyNan", {}}}, true));
  run.Step({kFloatNan});
  run.Finish(std::chrono::milliseconds(50));
  CHECK(run.drained.at(1).ledger.written == 1);
}

TEST_CASE("a loop that does not take its alarms costs no memory: they are counted") {
  StatusBoard board([] {});
  for (int i = 0; i < 30; ++i) board.Post(AlarmsRaised{1, i, std::vector<std::string>(999, "alarm"), 1});
  size_t reported = 0, further = 0;
  for (const BoardEntry& entry : board.Take()) {
    reported += std::get<AlarmsRaised>(entry).sentences.size();
    further += std::get<AlarmsRaised>(entry).further;
  }
  CHECK(reported == 9990);
  CHECK(reported + further == 30000);
  board.Post(AlarmsRaised{1, 31, {"alarm"}, 0});
  CHECK(std::get<AlarmsRaised>(board.Take().at(0)).sentences.size() == 1);
}

}  // namespace
}  // namespace stepwatch::drain
