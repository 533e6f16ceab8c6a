#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/run_fixture.h"

namespace stepwatch::runtime {
namespace {

TEST_CASE("in a forked child the data plane does nothing, and the parent goes on") {
  Run run;
  run.Start();
  run.OfferPlan({1});
  run.TrainStep();
  run.Observe();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int64_t step = run.plane.step();
    const bool asleep = !run.plane.InOwner() && !run.plane.collecting_flag()->load();
    const float value = 1;
    Record record;
    const bool measured = run.plane.Measure({0}, DenseView(&value, DType::kFloat32, nullptr, 0), &record);
    run.plane.ObserveMissing({0});
    run.plane.EndStep();
    run.plane.Close();
    ::_exit(asleep && !measured && run.plane.step() == step ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  run.TrainStep();
  run.Finish();
  CHECK(run.drained[1].ledger.written == 2);
}

}  // namespace
}  // namespace stepwatch::runtime
