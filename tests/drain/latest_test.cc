// The last values of the sites, asked for in mid-training.
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

TEST_CASE("the latest values are those of the running step where it has some, else of the last step that had") {
  Run run;
  run.drain.KeepLatest();
  run.Start();
  run.Begin({1, {0, 1, 1000000}, 3});
  Show(run, 2, 20);
  Show(run, 0, 1);
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.sink->records().size() == 2; }));
  Show(run, 0, 2);
  Show(run, 0, 3);
  const std::vector<LatestValue> values = run.drain.Latest(SiteKind::kGradReduced, kLong);
  REQUIRE(values.size() == 2);
  CHECK(values[0].name == "p");
  CHECK(values[0].record.site == 0);
  CHECK(values[0].record.step == 2);
  CHECK(values[0].record.values[0].f64 == 3);
  CHECK(values[1].record.site == 2);
  CHECK(values[1].record.step == 1);
  CHECK(values[1].record.values[0].f64 == 20);
  CHECK(run.drain.Latest(SiteKind::kExpAvg, kLong).empty());
}

TEST_CASE("a call for the latest values waits for the device, and for no longer than its limit") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 3});
  run.Observe(0);
  run.ObserveOnDevice(1);
  const std::vector<LatestValue> early = run.drain.Latest(SiteKind::kGradReduced, std::chrono::milliseconds(20));
  REQUIRE(early.size() == 1);
  CHECK(early[0].record.site == 0);
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.devices[0].FinishAll();
  });
  const std::vector<LatestValue> values = run.drain.Latest(SiteKind::kGradReduced, kLong);
  device.join();
  REQUIRE(values.size() == 2);
  CHECK_FALSE(values[1].record.pending());
  CHECK(values[1].record.value_count == 1);
}

TEST_CASE("frames that go to the sinks later do not bring older values back") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 3});
  Show(run, 0, 1);
  run.ObserveOnDevice(1);
  run.plane.plans.EndStep();
  Show(run, 0, 2);
  CHECK(run.drain.Latest(SiteKind::kGradReduced, std::chrono::milliseconds(20)).size() == 1);
  run.devices[0].FinishAll();
  REQUIRE(Eventually([&] { return run.sink->records().size() == 2; }));  // the frame of step 1
  const std::vector<LatestValue> values = run.drain.Latest(SiteKind::kGradReduced, kLong);
  REQUIRE(values.size() == 2);
  CHECK(values[0].record.step == 2);
  CHECK(values[0].record.values[0].f64 == 2);
}

TEST_CASE("a newer plan begins with no values") {
  Run run;
  run.drain.KeepLatest();
  run.Start();
  run.PublishPlan({1, {0, 1, 1000000}, 3});
  run.TrainStep();
  run.TrainStep();
  REQUIRE(run.drain.Latest(SiteKind::kGradReduced, kLong).size() == 1);
  run.PublishPlan({2, {0, 1, 1000000}, 3});
  run.TrainStep();
  Show(run, 2, 7);
  const std::vector<LatestValue> values = run.drain.Latest(SiteKind::kGradReduced, kLong);
  REQUIRE(values.size() == 1);
  CHECK(values[0].record.plan_id == 2);
}

TEST_CASE("a drain that was never started, or has stopped, knows no values and keeps nobody waiting") {
  Run run;
  CHECK(run.drain.Latest(SiteKind::kGradReduced, kLong).empty());
  run.Start();
  run.Finish();
  CHECK(run.drain.Latest(SiteKind::kGradReduced, kLong).empty());
}

}  // namespace
}  // namespace stepwatch::drain
