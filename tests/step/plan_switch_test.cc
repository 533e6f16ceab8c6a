// The step thread's side and the drain together: windows, swaps, the ledger.
#include "src/step/plan_switch.h"

#include <set>

#include "tests/drain/run_fixture.h"
#include "tests/rounds.h"

namespace stepwatch::step {

using namespace drain;
namespace {

std::vector<int64_t> StepsOf(const ScriptedSink& sink, PlanId plan) {
  std::set<int64_t> steps;
  for (const Record& record : sink.records())
    if (record.plan_id == plan) steps.insert(record.step);
  return {steps.begin(), steps.end()};
}

TEST_CASE("a plan collects the steps of its rule and then ends by itself") {
  Run run;
  RecordingHooks hooks;
  run.plane.plans.SetHooks(&hooks);
  run.Start();
  run.PublishPlan({1, {2, 3, 2}});
  for (int i = 0; i < 10; ++i) run.TrainStep(4);
  REQUIRE(run.WaitDrained(1));
  CHECK(StepsOf(*run.sink, 1) == std::vector<int64_t>{2, 5});
  CHECK(run.begun[0].first_step == 1);
  CHECK(run.ended[0].reason == EndReason::kTimes);
  CHECK(run.ended[0].last_step == 5);
  CHECK(run.drained[1].collected == 2);
  CHECK(run.drained[1].ledger.written == 8);
  CHECK(hooks.swaps == 2);
  CHECK(hooks.plan == 0);
  CHECK(run.sink->ended() == std::vector<PlanId>{1});
}

TEST_CASE("the time of each swap is added up, of plans and of stops, and a plan that waits for its step costs none") {
  StartedRun run;
  run.PublishPlan({1, {0, 1, 1000}});
  run.TrainStep();
  const SwapTimes first = run.plane.plans.swap_times();
  CHECK(first.swaps == 1);
  CHECK(first.total_ns == first.longest_ns);
  auto later = run.MakePending({2, {0, 1, 1000}});
  later->at_step = 5;
  run.Put(std::move(later));
  for (int i = 0; i < 2; ++i) run.TrainStep();
  CHECK(run.plane.plans.swap_times().swaps == 1);
  for (int i = 0; i < 3; ++i) run.TrainStep();
  REQUIRE(run.plane.plans.plan_id() == 2);
  run.PublishStop();
  for (int i = 0; i < 10; ++i) run.TrainStep();
  const SwapTimes all = run.plane.plans.swap_times();
  CHECK(all.swaps == 3);
  CHECK(all.longest_ns >= first.longest_ns);
  CHECK(all.total_ns > all.longest_ns);
}

TEST_CASE("the requests of a plan to the front end beside its sites come with the swap, and go with its end") {
  Run run;
  RecordingHooks hooks;
  run.plane.plans.SetHooks(&hooks);
  run.Start();
  auto plan = std::make_shared<plan::Plan>(*MakePlan({1, {0, 1, 2}}));
  plan->requests.stacks = true;
  run.Put(run.MakePending(plan));
  run.plane.plans.EndStep();
  CHECK(hooks.stacks);
  run.plane.plans.EndStep();
  run.plane.plans.EndStep();
  CHECK(hooks.plan == 0);
  CHECK_FALSE(hooks.stacks);
}

TEST_CASE("a plan that starts when it is applied counts from the step after the boundary") {
  StartedRun run(size_t{1} << 20, 500);
  auto pending = run.MakePending({1, {100, 3, 2}});
  pending->effect = NewWindow{StartRule::kWhenApplied};
  run.Put(std::move(pending));
  for (int i = 0; i < 8; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  CHECK(StepsOf(*run.sink, 1) == std::vector<int64_t>{501, 504});
}

TEST_CASE("a waiting plan is applied before the first step if it may be") {
  StartedRun run;
  run.PublishPlan({1, {0, 1, 1}});
  run.plane.plans.ApplyBetweenSteps();
  CHECK(run.plane.plans.plan_id() == 1);
  run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  CHECK(StepsOf(*run.sink, 1) == std::vector<int64_t>{0});
}

TEST_CASE("a newer plan takes over at the boundary and both accounts are exact") {
  Run run;
  RecordingHooks hooks;
  run.plane.plans.SetHooks(&hooks);
  run.Start();
  run.PublishPlan({1});
  run.TrainStep();
  run.TrainStep(5);
  run.PublishPlan({2});
  run.Observe();
  CHECK(run.plane.plans.plan_id() == 1);
  run.plane.plans.EndStep();
  CHECK(run.plane.plans.plan_id() == 2);
  CHECK(hooks.plan == 2);
  run.TrainStep(7);
  run.Finish();
  CHECK(run.drained[1].reason == EndReason::kReplaced);
  CHECK(run.drained[1].ledger.written == 6);
  CHECK(run.drained[2].ledger.written == 7);
  CHECK(run.sink->ended() == std::vector<PlanId>{1, 2});
}

TEST_CASE("a stop ends the window at the next boundary, and without a window does nothing") {
  StartedRun run;
  run.PublishStop();
  run.TrainStep();
  CHECK(run.plane.plans.plan_id() == 0);
  run.PublishPlan({1});
  run.TrainStep();
  run.TrainStep();
  run.PublishStop();
  run.Observe();
  CHECK(run.plane.plans.plan_id() == 1);
  run.plane.plans.EndStep();
  CHECK(run.plane.plans.plan_id() == 0);
  run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].reason == EndReason::kStopped);
  CHECK(run.drained[1].ledger.written == 2);
}

TEST_CASE("a plan that continues the window goes on with its first step, its count and its end") {
  StartedRun run;
  run.PublishPlan({1, {1, 2, 3}});
  for (int step = 0; step < 3; ++step) run.TrainStep();
  CHECK(run.plane.plans.collected() == 1);
  auto grown = run.MakePending({2, {0, 2, 100}, 9});
  grown->effect = Continue{};
  run.plane.plans.ContinueWith(std::move(grown));
  for (int step = 3; step < 12; ++step) run.TrainStep();
  REQUIRE(run.WaitDrained(2));
  CHECK(StepsOf(*run.sink, 1) == std::vector<int64_t>{1});
  CHECK(StepsOf(*run.sink, 2) == std::vector<int64_t>{3, 5});
  CHECK(run.drained[2].reason == EndReason::kTimes);
  CHECK(run.drained[1].collected == 1);
  CHECK(run.drained[2].collected == 2);
}

TEST_CASE(
    "a window that goes over to another interval too late counts as those that were in time, and ends with them") {
  // In time, before step 4: 1, 2, 3, 6, 9, 12, 15, 18.
  const std::vector<int64_t> in_time{6, 9, 12, 15, 18};
  for (const int64_t applied_at : {4, 5, 6, 7, 8}) {
    INFO("applied before step " << applied_at);
    StartedRun run;
    run.PublishPlan({1, {0, 1, 8}});
    for (int64_t step = 0; step < 25; ++step) {
      if (step + 1 == applied_at) {
        auto wider = run.MakePending({2, {0, 3, 8}});
        wider->effect = Continue{};
        wider->at_step = 4;
        run.Put(std::move(wider));
      }
      run.TrainStep();
    }
    REQUIRE(run.WaitDrained(2));
    const std::vector<int64_t> steps = StepsOf(*run.sink, 2);
    CHECK(steps == std::vector<int64_t>(in_time.begin() + (applied_at > 6 ? 1 : 0), in_time.end()));
    CHECK(run.drained[2].reason == EndReason::kTimes);
  }
}

TEST_CASE(
    "what waits for the step about to begin waits for the next once something was observed, were it only measured") {
  for (bool observes : {true, false}) {
    INFO("observes " << observes);
    StartedRun run;
    run.Begin({1, {0, 1, 4}});
    const float value = 1;
    Record record;
    if (observes) {
      REQUIRE(run.plane.recorder.Measure({0}, DenseView(&value, DType::kFloat32, nullptr, 0), &record));
      run.Produced(1, 1);
    }
    CHECK(run.plane.running.observed() == observes);
    auto continuation = run.MakePending({2});
    continuation->effect = Continue{};
    run.plane.plans.ContinueWith(std::move(continuation));
    CHECK(run.plane.plans.plan_id() == (observes ? 1 : 2));
    if (observes) run.plane.recorder.Enqueue(record);
    run.plane.plans.EndStep();
    CHECK(run.plane.plans.plan_id() == 2);
    CHECK_FALSE(run.plane.running.observed());
    run.plane.plans.Close();
    REQUIRE(run.WaitDrained(2));
    CHECK(run.drained[1].ledger.written == (observes ? 1 : 0));
    CHECK(run.ended[0].last_step == (observes ? 1 : -1));
  }
}

TEST_CASE(
    "a plan that was to continue a window that has ended never begins, nor does one that another took over from") {
  StartedRun run;
  run.PublishPlan({1, {1, 1, 1}});
  run.TrainStep();
  run.Observe();
  std::vector<std::weak_ptr<Pipeline>> pipelines;
  for (const PlanId id : {2, 3}) {
    auto grown = run.MakePending({id});
    grown->effect = Continue{};
    pipelines.push_back(grown->pipeline);
    run.plane.plans.ContinueWith(std::move(grown));
  }
  for (int i = 0; i < 5; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].reason == EndReason::kTimes);
  CHECK(run.plane.plans.plan_id() == 0);
  run.plane.plans.Reclaim();
  for (const auto& pipeline : pipelines) CHECK(pipeline.expired());
  run.Finish();
  CHECK(run.begun.size() == 1);
}

TEST_CASE("a superseded plan neither begins nor keeps the plans behind it waiting") {
  StartedRun run;
  run.PublishPlan({1});
  run.PublishPlan({2, {0, 1, 2}});
  for (int i = 0; i < 4; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(2));
  CHECK(run.begun.size() == 1);
  CHECK(run.begun[0].plan_id == 2);
}

TEST_CASE("closing in the middle of a step keeps the rows of that step, and ends everything") {
  StartedRun run;
  run.PublishPlan({1});
  run.TrainStep();
  run.TrainStep(2);
  run.Observe();
  run.Observe();
  run.Observe();
  run.Finish();
  CHECK(run.drained[1].reason == EndReason::kClosed);
  CHECK(run.drained[1].collected == 1);
  CHECK(run.drained[1].ledger.written == 5);
  run.plane.plans.EndStep();
  CHECK_FALSE(run.plane.recorder.collecting());
}

TEST_CASE("a plan that was armed when the monitor closed never begins") {
  StartedRun run;
  run.PublishPlan({1});
  run.TrainStep();
  run.TrainStep();
  run.PublishPlan({2});
  run.Finish();
  CHECK(run.begun.size() == 1);
}

TEST_CASE("a slow sink with two plans alive: frames stay in order, every row arrives") {
  Run run;
  run.sink->Hang();
  run.Start();
  run.PublishPlan({1});
  for (int i = 0; i < 5; ++i) run.TrainStep(3);
  run.PublishPlan({2, {0, 1, 3}});
  for (int i = 0; i < 6; ++i) run.TrainStep(3);
  CHECK(run.plane.plans.plan_id() == 0);  // the second plan is over too, and the first still has rows in its ring
  run.Collect();
  CHECK(run.drained.empty());
  run.sink->LetGo();
  REQUIRE(run.WaitDrained(2));
  const std::vector<Record> records = run.sink->records();
  for (size_t i = 1; i < records.size(); ++i) {
    CHECK(records[i - 1].plan_id <= records[i].plan_id);
    CHECK(records[i - 1].step <= records[i].step);
  }
  run.Finish();
  CHECK(run.drained[1].ledger.written == 15);
  CHECK(run.drained[2].ledger.written == 9);
}

// Not a yield: on a busy machine that can cost a time slice of everybody else's.
void Rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

// Plans are published by a second thread while a third observes inside the steps.
void SwapAtManySteps(int swaps_wanted) {
  StartedRun run;
  std::atomic<bool> done{false};
  std::thread loop([&] {
    PlanId next = 1;
    while (!done.load(std::memory_order_acquire)) {
      if (run.plane.plans.plan_waiting() && next % 16 != 0) {  // now and then a plan is superseded
        Rest();
        continue;
      }
      run.PublishPlan({next, {0, 1, 1 + next % 3}}, 1);
      ++next;
    }
  });
  std::atomic<int> wanted{0}, made{0};
  std::thread observer([&] {
    while (!done.load(std::memory_order_acquire)) {
      if (made.load() == wanted.load(std::memory_order_acquire)) {
        Rest();
        continue;
      }
      run.Observe();
      made.fetch_add(1, std::memory_order_release);
    }
  });
  PlanId before = 0;
  for (int swaps = 0, step = 0; swaps < swaps_wanted; ++step) {
    run.Observe();
    if (step % 20 == 0) {
      wanted.fetch_add(1, std::memory_order_release);
      while (made.load(std::memory_order_acquire) != wanted.load()) Rest();
    }
    run.plane.plans.EndStep();
    if (run.plane.plans.newest_begun() != before) ++swaps;
    before = run.plane.plans.newest_begun();
  }
  done.store(true, std::memory_order_release);
  loop.join();
  observer.join();
  run.Finish();
  CHECK(run.begun.size() >= static_cast<size_t>(swaps_wanted));
}

TEST_CASE("a swap at each of many steps, published by another thread, with observers on a third inside the steps",
          "[slow]") {
  SwapAtManySteps(testing::Rounds(5000, 4));
}

TEST_CASE("a swap at each of a hundred thousand steps, with the same three threads", "[slow][long]") {
  SwapAtManySteps(100000);
}

}  // namespace
}  // namespace stepwatch::step
