// Sinks that fail: every loss is counted, and the other sinks go on.
#include "src/drain/drain.h"

#include <stdexcept>

#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

TEST_CASE("a sink that fails for a while loses nothing") {
  Run run;
  std::atomic<int> failures{4};
  run.sink->SetScript([&failures](const RecordLayout& layout, const StepFrame& left) {
    return failures.fetch_sub(1) > 0 ? Refuse(layout, left) : WriteResult{Status(), left.count};
  });
  run.Start();
  run.PublishPlan({1, {0, 1, 10}});
  for (int i = 0; i < 12; ++i) run.TrainStep(3);
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].ledger.written == 30);
  REQUIRE(Eventually([&] {
    run.Collect();
    return run.recoveries == 1;
  }));
  REQUIRE(run.failures.size() == 1);
  CHECK(run.failures[0] == "no space left");
}

TEST_CASE("a sink that fails for ever: records that it did not take are counted when the run ends") {
  Run run;
  run.sink->SetScript(Refuse);
  run.Start();
  run.PublishPlan({1, {0, 1, 10}});
  for (int i = 0; i < 12; ++i) run.TrainStep(3);
  run.Finish(std::chrono::milliseconds(50));
  CHECK(run.Dropped(1, DropReason::kSinkFailed) == 30);
  CHECK(run.recoveries == 0);
}

TEST_CASE(
    "a backlog that is full discards its oldest frames, exactly counted, and never reports a recovery of the sink") {
  constexpr size_t kFrames = 4;
  Run run(kFrames * 3 * sizeof(Record));
  run.sink->SetScript(Refuse);
  run.Start();
  run.PublishPlan({1, {0, 1, 10}});
  for (int i = 0; i < 11; ++i) run.TrainStep(3);
  REQUIRE(Eventually([&] { return run.sink->discarded() > 0; }));
  run.PublishPlan({2, {0, 1, 4}});
  for (int i = 0; i < 6; ++i) run.TrainStep(3);
  REQUIRE(run.WaitDrained(1));  // its last frame had to give way to those of the second plan
  CHECK(run.Dropped(1, DropReason::kSinkFailed) == 30);
  CHECK(run.recoveries == 0);
  run.sink->SetScript({});
  run.Finish();
  CHECK(run.drained[2].ledger.written == 12);
  CHECK(run.recoveries == 1);
  CHECK(run.sink->ended() == std::vector<PlanId>{1, 2});
}

TEST_CASE("a frame that a sink takes piece by piece is written once and counted exactly") {
  Run run;
  std::atomic<int> calls{0};
  run.sink->SetScript([&calls](const RecordLayout& layout, const StepFrame& left) {
    if (calls.fetch_add(1) % 3 == 2) return WriteResult{Status(), left.count};
    WriteResult result = Refuse(layout, left);
    result.written = std::min<size_t>(2, left.count);
    return result;
  });
  run.Start();
  run.PublishPlan({1, {0, 1, 3}});
  for (int i = 0; i < 5; ++i) run.TrainStep(7);
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].ledger.written == 21);
}

TEST_CASE("an exception of a sink is a failure like any other: frames before and behind it are accounted for") {
  Run run;
  std::atomic<int> calls{0};
  run.sink->SetScript([&calls](const RecordLayout&, const StepFrame& left) -> WriteResult {
    const int call = calls.fetch_add(1);
    if (call == 1) throw std::runtime_error("thrown on purpose");
    if (call == 3) throw 7;  // NOLINT(hicpp-exception-baseclass): on purpose
    return {Status(), left.count};
  });
  run.PublishPlan({1, {0, 1, 6}});
  for (int i = 0; i < 8; ++i) run.TrainStep(2);  // all frames lie in the ring when the drain begins
  run.Start();
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].ledger.written == 12);
  REQUIRE_FALSE(run.failures.empty());
  CHECK(run.failures[0].find("thrown on purpose") != std::string::npos);
}

TEST_CASE("a sink that throws at the end of a plan and at a flush keeps neither the plan nor the thread") {
  class Thrower final : public Sink {
   public:
    WriteResult Write(const RecordLayout&, const StepFrame& frame) override { return {Status(), frame.count}; }
    void EndPlan(const RecordLayout&) override { throw std::runtime_error("end"); }
    Status Flush() override { throw std::runtime_error("flush"); }
  };
  Run run;
  run.Start({std::make_shared<Thrower>()});
  run.PublishPlan({1, {0, 1, 2}});
  for (int i = 0; i < 4; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  run.PublishPlan({2, {0, 1, 2}});
  for (int i = 0; i < 4; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(2));
}

TEST_CASE("a sink that fails does not keep the others from their rows") {
  Run run;
  auto broken = std::make_shared<ScriptedSink>();
  broken->SetScript([](const RecordLayout&, const StepFrame&) -> WriteResult { throw std::runtime_error("no"); });
  auto further = std::make_shared<ScriptedSink>();
  run.Start({broken, further});
  run.PublishPlan({1, {0, 1, 5}});
  for (int i = 0; i < 7; ++i) run.TrainStep(2);
  REQUIRE(run.WaitDrained(1));
  REQUIRE(Eventually([&] { return further->records().size() == 10; }));
  run.Finish(std::chrono::milliseconds(20));
}

TEST_CASE("a plan is not drained while rows of it wait for a sink that refuses them, whatever count it returns") {
  for (const size_t claims : {0, 1, 2}) {
    INFO("of two rows of each step it claims " << claims);
    Run run;
    run.sink->SetScript([claims](const RecordLayout& layout, const StepFrame& left) {
      WriteResult result = Refuse(layout, left);
      result.written = left.count == 2 ? claims : 0;
      return result;
    });
    run.Start();
    run.PublishPlan({1, {0, 1, 3}});
    for (int i = 0; i < 6; ++i) run.TrainStep(2);
    REQUIRE(Eventually([&] { return run.sink->writes() >= 4; }));
    run.Collect();
    CHECK(run.ended.size() == 1);
    CHECK(run.drained.empty());
    run.sink->SetScript({});
    REQUIRE(run.WaitDrained(1));
    CHECK(run.drained[1].ledger.written == 6);
  }
}

TEST_CASE("a sink that hangs does not hang the end of the run for ever") {
  Run run;
  run.sink->Hang();
  run.Start();
  run.PublishPlan({1, {0, 1, 1}});
  for (int i = 0; i < 3; ++i) run.TrainStep();
  REQUIRE(Eventually([&] { return run.sink->writes() == 1; }));
  run.plane.plans.Close();
  const SteadyTime at_once = std::chrono::steady_clock::now();
  CHECK(run.drain.Stop(at_once, at_once) == StopOutcome::kHangs);
  run.sink->LetGo();
  run.Finish();
  CHECK(run.drained[1].ledger.written == 1);
}

TEST_CASE("a drain that was never started stops at once") {
  step::WakeUp wake_up;
  StatusBoard board([] {});
  stats::Engine engine;
  step::BegunPlans begun_plans;
  Drain drain(&board, &engine, &wake_up, &begun_plans, 1000);
  CHECK(drain.Stop(SteadyTime::max(), SteadyTime::max()) == StopOutcome::kDrained);
}

}  // namespace
}  // namespace stepwatch::drain
