// Observations of hooks, on their way into the ring and to the drain.
#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

TEST_CASE("a ring that is full drops records and counts them") {
  Run run;
  run.sink->Hang();
  run.Start();
  run.PublishPlan({1}, 64);
  run.TrainStep();
  for (int i = 0; i < 20; ++i) run.TrainStep(50);  // the drain hangs in the first frame
  run.sink->LetGo();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kRingFull) > 0);
  CHECK(run.drained[1].ledger.written >= 64);
  CHECK(run.drained[1].collected == 20);
}

TEST_CASE("tensors that cannot be measured are counted as unsupported") {
  StartedRun run;
  run.PublishPlan({1});
  run.TrainStep();
  const float value = 1;
  TensorView odd = DenseView(&value, DType::kOther, nullptr, 0);
  TensorView elsewhere = DenseView(&value, DType::kFloat32, nullptr, 0);
  elsewhere.device = {DeviceKind::kCuda, 0};
  Record record;
  CHECK_FALSE(run.plane.recorder.Measure({0}, odd, &record));
  CHECK_FALSE(run.plane.recorder.Measure({0}, elsewhere, &record));
  run.plane.recorder.ObserveAgreement({0}, odd, odd);
  run.plane.recorder.ObserveMissing({0});
  run.Produced(1, 4);
  run.TrainStep();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 3);
  CHECK(run.drained[1].ledger.written == 2);
}

TEST_CASE(
    "a record that was measured under another plan is counted as late, and does not reach the newer plan's files") {
  StartedRun run;
  run.PublishPlan({1});
  run.TrainStep();
  const float value = 1;
  Record record;
  REQUIRE(run.plane.recorder.Measure({0}, DenseView(&value, DType::kFloat32, nullptr, 0), &record));
  run.PublishPlan({2});
  run.TrainStep(0);
  run.plane.recorder.Enqueue(record);
  run.Produced(2, 1);
  run.TrainStep();
  run.Finish();
  CHECK(run.Dropped(2, DropReason::kLate) == 1);
  CHECK(run.drained[2].ledger.written == 1);
  CHECK(run.drained[1].ledger.produced == 0);
}

TEST_CASE("a site that the plan does not have is counted as late, and reaches no sink") {
  StartedRun run;
  run.PublishPlan({1, {0, 1, 100}, 2});
  run.TrainStep();
  run.Observe(1);
  run.Observe(2);
  run.Observe(~SiteId{0});
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 2);
  CHECK(run.drained[1].ledger.written == 1);
}

}  // namespace
}  // namespace stepwatch::step
