#include <sys/wait.h>
#include <unistd.h>

#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

TEST_CASE("in a forked child the data plane does nothing, and the parent goes on") {
  StartedRun run;
  run.PublishPlan({1});
  run.TrainStep();
  run.Observe();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int64_t step = run.plane.running.number();
    const bool asleep = !run.plane.InOwner() && !run.plane.recorder.collecting();
    const float value = 1;
    Record record;
    const bool measured = run.plane.recorder.Measure({0}, DenseView(&value, DType::kFloat32, nullptr, 0), &record);
    run.plane.recorder.ObserveMissing({0});
    run.plane.plans.EndStep();
    run.plane.plans.Close();
    ::_exit(asleep && !measured && run.plane.running.number() == step ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  run.TrainStep();
  run.Finish();
  CHECK(run.drained[1].ledger.written == 2);
}

TEST_CASE("a forked child leaves the device alone, and the results that the parent waits for still arrive") {
  StartedRun run(OneDevice());
  run.PublishPlan({1});
  run.TrainStep();
  run.ObserveOnDevice();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const float value = 1;
    const TensorView view = device::OnDevice(DenseView(&value, DType::kFloat32, nullptr, 0));
    const Observation at{0};
    const int launches = run.devices[0].launches();
    Record record;
    const bool measured = run.plane.recorder.Measure(at, view, &record);
    run.plane.recorder.ObserveBatch(&at, &view, 1);
    run.plane.recorder.ObserveAgreement(at, view, view);
    run.plane.plans.EndStep();
    ::_exit(!measured && run.devices[0].launches() == launches ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  run.plane.plans.EndStep();
  run.devices[0].FinishAll();
  run.Finish();
  CHECK(run.drained[1].ledger.written == 1);
}

}  // namespace
}  // namespace stepwatch::step
