// What devices take for measurements is cost, as what the trainer's threads take is.
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

TEST_CASE("what a device took for measurements is added to the cost of the kind, and told apart") {
  RunSetup setup;
  setup.devices = 1;
  Run run(setup);
  run.Start();
  run.PublishPlan({1, {0, 1, 1000000}, 8});
  run.plane.plans.EndStep();
  run.devices[0].FinishAtOnce();
  run.devices[0].Take(std::chrono::seconds(1));
  run.ObserveOnDevice(3);
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.board.device_ns_so_far() == 1'000'000'000; }));
  run.devices[0].Take(std::chrono::nanoseconds(0));
  run.ObserveOnDevice(3);
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.board.cost_so_far().collected == 2; }));
  const step::StepCost cost = run.board.cost_so_far();
  CHECK(run.board.device_ns_so_far() == 1'000'000'000);
  CHECK(cost.ns[static_cast<size_t>(SiteKind::kGradReduced)] > 1'000'000'000);
  CHECK(cost.total_ns() > 1'000'000'000);
}

}  // namespace
}  // namespace stepwatch::drain
