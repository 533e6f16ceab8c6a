// The time of devices for measurements is cost, like the time of the trainer's threads.
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

TEST_CASE("the time of a device for measurements is added to the cost of the kind, and reported on its own") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 8});
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
