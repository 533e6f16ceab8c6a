#include "operations/discovery/standstill.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

PulseLook At(int64_t step, RunPhase phase = RunPhase::kTrain) {
  PulseLook look;
  look.step = step;
  look.phase = phase;
  return look;
}

Standstill Paced(double seconds, int steps = 20) {
  Standstill watch;
  for (int step = 0; step < steps; ++step) watch.OnLook(At(step), step * seconds);
  return watch;
}

TEST_CASE("a step that takes more than three of its kind and a second is a reason to look") {
  const Standstill watch = Paced(2);
  CHECK_FALSE(watch.Stands(19 * 2 + 6.9));
  CHECK(watch.Stands(19 * 2 + 7.1));
}

TEST_CASE("one step that took long, as with a checkpoint that was not announced, is no pace") {
  Standstill watch = Paced(1);
  watch.OnLook(At(20), 60);
  watch.OnLook(At(21), 61);
  CHECK(watch.Stands(61 + 4.1));
}

TEST_CASE("before a pace is known only a minute is long") {
  const Standstill watch = Paced(1, 3);
  CHECK_FALSE(watch.Stands(2 + 59));
  CHECK(watch.Stands(2 + 61));
}

TEST_CASE("no process stands still in an evaluation, a checkpoint, a pause, or before the first step") {
  Standstill watch = Paced(1);
  watch.OnLook(At(19, RunPhase::kEval), 19.5);
  CHECK_FALSE(watch.Stands(1000));
  watch.OnLook(At(19), 1000);
  CHECK_FALSE(watch.Stands(1001));
  CHECK(watch.Stands(1005));
  Standstill first;
  first.OnLook(PulseLook(), 0);
  CHECK_FALSE(first.Stands(1000));
}

TEST_CASE("a look is due once, then less and less often, and at once when it stands again") {
  Standstill watch = Paced(1);
  CHECK_FALSE(watch.TakeTurn(20));
  CHECK(watch.TakeTurn(24));
  CHECK_FALSE(watch.TakeTurn(25));
  CHECK(watch.TakeTurn(44));
  CHECK_FALSE(watch.TakeTurn(83));
  CHECK(watch.TakeTurn(84));
  watch.OnLook(At(20), 85);
  CHECK_FALSE(watch.TakeTurn(86));
  CHECK(watch.TakeTurn(90));
}

}  // namespace
}  // namespace stepwatch::operations
