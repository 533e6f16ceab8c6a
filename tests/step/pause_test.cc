// Pauses of the window in force, and new segments of its files.
#include "src/step/plan_switch.h"
#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

struct PausedRun : Run {
  explicit PausedRun(const PlanSpec& spec = {1, {1, 1, 3}}) {
    plane.plans.SetHooks(&hooks);
    Start();
    auto plan = std::make_shared<plan::Plan>(*MakePlan(spec));
    plan->requests.stacks = plan->requests.communication = true;
    Put(MakePending(plan));
    TrainStep();
    TrainStep();
  }
  void Pause(bool pause = true, PlanId window = 1) {
    plane.plans.RequestPause(window, pause);
    TrainStep();
  }
  int64_t collected() const { return plane.plans.collected(); }

  RecordingHooks hooks;
};

TEST_CASE("a pause begins and ends at a boundary, takes the hooks off, and keeps the count") {
  PausedRun run;
  CHECK(run.collected() == 1);
  run.Pause();
  CHECK(run.collected() == 2);  // the step in which it was asked for is collected
  CHECK(run.plane.plans.paused());
  CHECK(run.hooks.plan == 0);
  for (int i = 0; i < 5; ++i) run.TrainStep();
  CHECK(run.collected() == 2);
  CHECK(run.plane.plans.plan_id() == 1);
  run.Pause(false);
  CHECK_FALSE(run.plane.plans.paused());
  CHECK(run.hooks.plan == 1);
  CHECK(run.hooks.communication);
  CHECK_FALSE(run.hooks.stacks);  // requested once, at the begin
  run.TrainStep();
  CHECK(run.plane.plans.plan_id() == 0);
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].collected == 3);
  REQUIRE(run.pauses.size() == 2);
  CHECK(run.pauses[0].step == 3);
  CHECK(run.pauses[0].paused);
  CHECK(run.pauses[1].step == 9);
  CHECK_FALSE(run.pauses[1].paused);
}

TEST_CASE("a pause is for one window: a newer plan collects, and its own window is not meant") {
  PausedRun run;
  run.Pause();
  run.PublishPlan({2});
  run.TrainStep();
  CHECK_FALSE(run.plane.plans.paused());
  CHECK(run.hooks.plan == 2);
  run.TrainStep();
  CHECK(run.collected() == 1);
  run.Pause(true, 1);
  CHECK_FALSE(run.plane.plans.paused());
  run.PublishStop();
  run.Pause(true, 2);  // with the stop
  CHECK_FALSE(run.plane.plans.paused());
  CHECK(run.plane.plans.plan_id() == 0);
}

TEST_CASE("a pause for a step begins there, for whichever window is in force then") {
  PausedRun run({1, {1, 1, 100}});
  run.plane.plans.RequestPauseAt(6, true);
  run.TrainStep();
  run.PublishPlan({2, {1, 1, 4}});
  run.TrainStep();
  CHECK_FALSE(run.plane.plans.paused());
  CHECK(run.plane.plans.pause_changed_at() == -1);
  while (run.plane.running.number() < 6) run.TrainStep();
  CHECK(run.plane.plans.paused());
  CHECK(run.plane.plans.plan_id() == 2);
  CHECK(run.plane.plans.pause_changed_at() == 6);
  const int64_t collected = run.collected();
  run.plane.plans.RequestPauseAt(9, false);
  while (run.plane.running.number() < 9) run.TrainStep();
  CHECK(run.collected() == collected);
  CHECK_FALSE(run.plane.plans.paused());
  CHECK(run.plane.plans.pause_changed_at() == 9);
  run.PublishStop();
  run.TrainStep();
  run.plane.plans.RequestPauseAt(11, true);  // nothing is in force then
  run.TrainStep();
  CHECK_FALSE(run.plane.plans.paused());
}

// Two ranks of a job agree on steps; one learns of them late.
TEST_CASE("a window that is paused late, or goes on late, ends with those that were in time") {
  for (const bool is_late : {false, true}) {
    PausedRun run({1, {1, 1, 10}});
    const auto ask = [&](int64_t step, bool pause) {
      if (!is_late) run.plane.plans.RequestPauseAt(step, pause);
      while (run.plane.running.number() < step + 1) run.TrainStep();
      if (is_late) run.plane.plans.RequestPauseAt(step, pause);
      run.TrainStep();
    };
    ask(5, true);
    CHECK(run.plane.plans.paused());
    CHECK(run.plane.plans.pause_changed_at() == (is_late ? 7 : 5));
    CHECK(run.collected() == 4);
    ask(9, false);
    CHECK(run.collected() == 6);
    while (run.plane.plans.plan_id() != 0) run.TrainStep();
    CHECK(run.plane.running.number() == 15);
    REQUIRE(run.WaitDrained(1));
  }
}

TEST_CASE("a plan that continues a paused window is paused, and hangs its hooks when that ends") {
  PausedRun run;
  run.Pause();
  auto grown = run.MakePending({2, {0, 1, 100}, 9});
  grown->effect = Continue{};
  run.plane.plans.ContinueWith(std::move(grown));
  CHECK(run.plane.plans.plan_id() == 2);
  CHECK(run.plane.plans.paused());
  CHECK(run.hooks.plan == 0);
  run.TrainStep();
  CHECK(run.collected() == 2);
  run.Pause(false, 1);  // the window is that of plan 1
  CHECK(run.hooks.plan == 2);
  run.TrainStep();
  REQUIRE(run.WaitDrained(2));
  CHECK(run.drained[2].collected == 1);
}

TEST_CASE("a stop ends a paused window, and so does the end of the run") {
  PausedRun stopped, closed;
  stopped.Pause(), closed.Pause();
  stopped.PublishStop();
  stopped.TrainStep();
  CHECK_FALSE(stopped.plane.plans.paused());
  REQUIRE(stopped.WaitDrained(1));
  CHECK(stopped.drained[1].reason == EndReason::kStopped);
  closed.Finish();
  CHECK(closed.drained[1].reason == EndReason::kClosed);
}

TEST_CASE("a segment begins behind the frames of the steps before it, and the account is exact") {
  PausedRun run({1, {1, 1, 1000}});
  std::vector<uint64_t> rows;
  for (int64_t segment = 2; segment < 20; ++segment) {
    run.plane.plans.RequestCut(segment);
    run.TrainStep(static_cast<int>(segment));
    CHECK_FALSE(run.plane.plans.WithdrawCut());
    REQUIRE(Eventually([&] {
      run.Collect();
      return run.segments.size() == static_cast<size_t>(segment - 1);
    }));
    CHECK(run.segments.back().segment == segment);
    CHECK(run.segments.back().last_step == segment);
    CHECK(run.sink->segments().back() == run.sink->records().size());
    CHECK(run.sink->records().back().step == segment);
  }
  run.Finish();
}

TEST_CASE("a segment that is asked for in the last step begins before the plan ends, or else with the next plan") {
  PausedRun run({1, {1, 1, 2}});
  run.plane.plans.RequestCut(2);
  run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  REQUIRE(run.segments.size() == 1);
  CHECK(run.segments[0].plan_id == 1);

  run.plane.plans.RequestCut(3);
  run.TrainStep();
  run.PublishPlan({2});
  run.TrainStep();
  run.Finish();
  REQUIRE(run.segments.size() == 2);
  CHECK(run.segments[1].plan_id == 2);
}

TEST_CASE("a segment waits for what a device owes to the frames before it") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 3});
  run.ObserveOnDevice(1);
  run.plane.plans.RequestCut(2);
  run.plane.plans.EndStep();
  run.Observe();
  run.plane.plans.EndStep();
  CHECK_FALSE(run.drain.Flush(std::chrono::milliseconds(30)));
  run.Collect();
  CHECK(run.segments.empty());
  run.devices[0].FinishAll();
  REQUIRE(run.drain.Flush(std::chrono::seconds(10)));
  run.Collect();
  REQUIRE(run.segments.size() == 1);
  CHECK(run.sink->segments() == std::vector<size_t>{1});
}

TEST_CASE("a segment begins behind frames that a failing sink has lost, and the marker gets through a full ring") {
  Run run(3 * sizeof(Record));
  run.sink->SetScript(Refuse);
  run.Start();
  run.Begin({1, {0, 1, 1000000}}, 64);
  for (int i = 0; i < 3; ++i) run.TrainStep(2);
  run.plane.plans.RequestCut(2);
  run.TrainStep(2000);
  run.Finish(std::chrono::milliseconds(50));
  CHECK(run.segments.size() == 1);
}

}  // namespace
}  // namespace stepwatch::step
