#include "src/step/part_clock.h"

#include <algorithm>
#include <map>
#include <random>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::step {
namespace {

TEST_CASE("the time of a step is divided among the parts that it was in") {
  PartClock clock(100);
  CHECK(clock.Enter(StepPart::kData, 110) == StepPart::kRest);
  CHECK(clock.Enter(StepPart::kRest, 140) == StepPart::kData);
  CHECK(clock.Enter(StepPart::kData, 200) == StepPart::kRest);  // of the second micro-batch
  (void)clock.Enter(StepPart::kRest, 205);
  (void)clock.Enter(StepPart::kOptimizer, 300);
  (void)clock.Enter(StepPart::kRest, 310);
  const PartTimes times = clock.EndStep(310);
  CHECK(times.data_ns == 35);
  CHECK(times.optimizer_ns == 10);
}

TEST_CASE("a part that a step was never in is absent") {
  PartClock clock(0);
  (void)clock.Enter(StepPart::kData, 10);
  (void)clock.Enter(StepPart::kRest, 10);
  PartTimes times = clock.EndStep(50);
  CHECK(times.data_ns == 0);
  CHECK(times.optimizer_ns == PartTimes::kAbsent);
  times = clock.EndStep(60);
  CHECK(times.data_ns == PartTimes::kAbsent);
}

TEST_CASE("time belongs to the innermost part") {
  PartClock clock(0);
  const StepPart outer = clock.Enter(StepPart::kOptimizer, 10);
  const StepPart inner = clock.Enter(StepPart::kData, 20);
  (void)clock.Enter(inner, 50);
  (void)clock.Enter(outer, 60);
  const PartTimes times = clock.EndStep(100);
  CHECK(times.data_ns == 30);
  CHECK(times.optimizer_ns == 20);
}

TEST_CASE("time outside training belongs to no part, and data of an evaluation is none of the step's") {
  PartClock clock(0);
  (void)clock.Enter(StepPart::kData, 10);
  clock.SetTraining(false, 20);
  clock.SetTraining(true, 50);
  (void)clock.Enter(StepPart::kRest, 60);
  CHECK(clock.EndStep(70).data_ns == 20);
  clock.SetTraining(false, 80);
  (void)clock.Enter(StepPart::kData, 85);
  (void)clock.Enter(StepPart::kRest, 90);
  clock.SetTraining(true, 95);
  CHECK(clock.EndStep(100).data_ns == PartTimes::kAbsent);
}

TEST_CASE("a step with unknown time has no parts, and the next one has") {
  PartClock clock(0);
  (void)clock.Enter(StepPart::kData, 10);
  (void)clock.Enter(StepPart::kUnknown, 20);
  (void)clock.Enter(StepPart::kRest, 20);
  CHECK(clock.EndStep(30).data_ns == PartTimes::kAbsent);
  (void)clock.Enter(StepPart::kOptimizer, 40);  // its end is missed: the update has raised
  PartTimes times = clock.EndStep(50);
  CHECK(times.optimizer_ns == PartTimes::kAbsent);
  (void)clock.Enter(StepPart::kOptimizer, 60);
  (void)clock.Enter(StepPart::kRest, 61);
  times = clock.EndStep(70);
  CHECK(times.optimizer_ns == 1);
}

TEST_CASE("waiting for data beyond the end of a step counts in both steps") {
  PartClock clock(0);
  (void)clock.Enter(StepPart::kData, 10);
  CHECK(clock.EndStep(30).data_ns == 20);
  (void)clock.Enter(StepPart::kRest, 35);
  CHECK(clock.EndStep(100).data_ns == 5);
}

TEST_CASE("inner parts are sums like the others, and time in an update or a wait inside them is not theirs") {
  PartClock clock(0);
  for (const int64_t begin : {0, 100}) {  // two micro-batches
    const StepPart outer = clock.Enter(StepPart::kForward, begin + 10);
    const StepPart forward = clock.Enter(StepPart::kCommunication, begin + 20);
    (void)clock.Enter(forward, begin + 25);
    (void)clock.Enter(outer, begin + 50);
    (void)clock.Enter(StepPart::kBackward, begin + 60);
    const StepPart pass = clock.Enter(StepPart::kOptimizer, begin + 80);  // an update in the pass
    (void)clock.Enter(pass, begin + 83);
    (void)clock.Enter(StepPart::kRest, begin + 90);
  }
  const PartTimes times = clock.EndStep(200);
  CHECK(times.forward_ns == 70);
  CHECK(times.communication_ns == 10);
  CHECK(times.backward_ns == 54);
  CHECK(times.optimizer_ns == 6);
  CHECK(times.data_ns == PartTimes::kAbsent);
}

TEST_CASE("a step that ends in the middle of an inner part has none, nor has the next one") {
  const StepPart part = GENERATE(StepPart::kForward, StepPart::kBackward, StepPart::kCommunication);
  PartClock clock(0);
  (void)clock.Enter(StepPart::kData, 10);
  (void)clock.Enter(part, 20);
  PartTimes times = clock.EndStep(30);
  CHECK(times.data_ns == 10);
  CHECK(times.forward_ns == PartTimes::kAbsent);
  CHECK(times.backward_ns == PartTimes::kAbsent);
  CHECK(times.communication_ns == PartTimes::kAbsent);
  int64_t now = 30;
  for (const bool is_known : {false, true}) {
    (void)clock.Enter(StepPart::kForward, now += 10);
    (void)clock.Enter(StepPart::kRest, now += 5);
    times = clock.EndStep(now += 5);
    CHECK((times.forward_ns == 5) == is_known);
  }
}

TEST_CASE("parts of any history are never negative, and never sum to more than the training time of their step") {
  std::mt19937_64 random(test::RandomSeed());
  for (int round = 0; round < 200; ++round) {
    int64_t now = 1000;
    PartClock clock(now);
    bool is_training = true;
    StepPart part = StepPart::kRest;
    std::map<StepPart, int64_t> expected;
    int64_t trained = 0;
    for (int event = 0; event < 300; ++event) {
      const auto passed = static_cast<int64_t>(random() % 50);
      now += passed;
      if (is_training) {
        expected[part] += passed;
        trained += passed;
      }
      switch (random() % 4) {
        case 0:
        case 1:
          part = static_cast<StepPart>(random() % 3);
          (void)clock.Enter(part, now);
          break;
        case 2:
          is_training = !is_training;
          clock.SetTraining(is_training, now);
          break;
        default: {
          const PartTimes times = clock.EndStep(now);
          const int64_t data = std::max<int64_t>(0, times.data_ns), update = std::max<int64_t>(0, times.optimizer_ns);
          REQUIRE(times.data_ns >= PartTimes::kAbsent);
          REQUIRE(times.optimizer_ns >= PartTimes::kAbsent);
          REQUIRE(data + update <= trained);
          if (part != StepPart::kOptimizer) {
            REQUIRE(data == expected[StepPart::kData]);
            REQUIRE(update == expected[StepPart::kOptimizer]);
          } else {
            REQUIRE(times.data_ns == PartTimes::kAbsent);
            part = StepPart::kRest;
          }
          expected.clear();
          trained = 0;
        }
      }
    }
  }
}

TEST_CASE("a clock that another thread has read earlier makes no part negative") {
  PartClock clock(100);
  (void)clock.Enter(StepPart::kData, 200);
  (void)clock.Enter(StepPart::kOptimizer, 150);
  (void)clock.Enter(StepPart::kRest, 160);
  const PartTimes times = clock.EndStep(210);
  CHECK(times.data_ns == 0);
  CHECK(times.optimizer_ns == 0);
}

}  // namespace
}  // namespace stepwatch::step
