#include "src/step/step_gate.h"

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "tests/drain/run_fixture.h"
#include "tests/rounds.h"

namespace stepwatch::step {

using namespace drain;
namespace {

using std::chrono::milliseconds;

TEST_CASE("a step before the gate, or with the gate open, begins at once") {
  StepGate gate(0, std::chrono::hours(1));
  gate.Arrive(1);
  CHECK(gate.HoldAt(3) == 1);
  gate.Arrive(2);
  gate.Release();
  gate.Arrive(3);
  CHECK(gate.waits() == 0);
  CHECK(gate.arriving() == 3);
  CHECK_FALSE(gate.in_doubt());
}

TEST_CASE("a step at the gate begins when it opens") {
  StepGate gate(0, std::chrono::hours(1));
  gate.HoldAt(1);
  std::thread loop([&] {
    while (gate.waits() == 0) std::this_thread::yield();
    gate.Release();
  });
  gate.Arrive(1);
  loop.join();
  CHECK(gate.waits() == 1);
  CHECK(gate.timeouts() == 0);
  CHECK(gate.seconds_waited() > 0);
  CHECK_FALSE(gate.in_doubt());
}

TEST_CASE("patience ends once at a gate, the steps are in doubt until it opens") {
  StepGate gate(4, milliseconds(10));
  gate.HoldAt(6);
  gate.Arrive(5);
  CHECK_FALSE(gate.in_doubt());
  gate.Arrive(6);
  CHECK(gate.in_doubt());
  gate.Arrive(7);
  CHECK(gate.in_doubt());
  CHECK(gate.waits() == 1);
  CHECK(gate.timeouts() == 1);
  CHECK(gate.seconds_waited() >= 0.01);
  gate.Release();
  CHECK(gate.in_doubt());  // the running step is not rewritten
  gate.Arrive(8);
  CHECK_FALSE(gate.in_doubt());
  gate.HoldAt(9);
  gate.Arrive(9);
  CHECK(gate.timeouts() == 2);  // another gate is waited at again
}

TEST_CASE("who finds that the step is ahead when the gate is set is right: the step thread stops there") {
  StepGate gate(0, std::chrono::hours(1));
  std::atomic<bool> done{false};
  std::thread steps([&] {
    for (int64_t step = 1; !done; ++step) gate.Arrive(step);
  });
  constexpr int kHeld = testing::Rounds(500);
  int held = 0;
  for (int round = 0; held < kHeld; ++round) {
    const int64_t at = gate.arriving() + 1 + round % 200;
    if (gate.HoldAt(at) < at) {
      ++held;
      while (gate.arriving() < at) std::this_thread::yield();
      for (int i = 0; i < 5; ++i) std::this_thread::yield();
      if (gate.arriving() != at) FAIL_CHECK("the gate at " << at << " was passed");
    }
    if (held == kHeld) done = true;
    gate.Release();
  }
  steps.join();
  CHECK(gate.timeouts() == 0);
}

TEST_CASE("a plan that reaches a rank after its agreed step ends where it ends on the others") {
  StartedRun run;
  for (int i = 0; i < 5; ++i) run.TrainStep();
  auto pending = run.MakePending({1, {0, 2, 4}});
  pending->at_step = 3;  // collected on the others: 3, 5, 7, 9
  pending->effect = NewWindow{StartRule::kAtStep};
  run.Put(std::move(pending));
  for (int i = 0; i < 10; ++i) run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  std::set<int64_t> steps;
  for (const Record& record : run.sink->records()) steps.insert(record.step);
  CHECK(steps == std::set<int64_t>{7, 9});
  CHECK(run.ended[0].last_step == 9);
  CHECK(run.ended[0].collected == 4);
}

TEST_CASE("rows of steps in doubt are marked, those of hooks without a tensor too") {
  StartedRun run;
  run.PublishPlan({1, {1, 1, 4}});
  run.TrainStep();
  run.TrainStep();
  run.plane.gate.HoldAt(3);
  run.TrainStep();  // begins step 3 in doubt, after the default patience
  run.Produced(1, 1);
  run.plane.recorder.ObserveMissing({0});
  run.TrainStep();
  run.plane.gate.Release();
  run.TrainStep();
  run.TrainStep();
  REQUIRE(run.WaitDrained(1));
  std::map<int64_t, int> doubts;
  for (const Record& record : run.sink->records()) {
    doubts[record.step] += (record.flags & Record::kInDoubt) != 0 ? 1 : 0;
    CHECK(record.missing() == ((record.flags & Record::kMissing) != 0));
  }
  CHECK(doubts == std::map<int64_t, int>{{1, 0}, {2, 0}, {3, 2}, {4, 1}});
}

}  // namespace
}  // namespace stepwatch::step
