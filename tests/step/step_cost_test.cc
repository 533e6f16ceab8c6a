// The cost of measuring, as the step thread counts it and the board reports it.
#include "src/step/step_cost.h"

#include "src/step/record_ring.h"
#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

TEST_CASE("costs that a frame does not take along go with the next one") {
  CostCounters counters;
  CostMeter meter;
  meter.BeginPlan(false);
  counters.Add(2, std::chrono::nanoseconds(100));
  (void)meter.EndStep();
  const StepCost lost = meter.EndFrame(counters);
  CHECK(lost.collected == 1);
  CHECK(lost.steps == 1);
  CHECK(lost.ns[2] == 100);
  counters.Add(2, std::chrono::nanoseconds(30));
  counters.Add(kBoundaryCost, std::chrono::nanoseconds(7));
  (void)meter.EndStep();
  (void)meter.EndStep();
  const StepCost both = meter.EndFrame(counters);
  CHECK(both.collected == 2);
  CHECK(both.steps == 3);
  CHECK(both.ns[2] == 130);
  CHECK(both.total_ns() == 137);
  CHECK(both.longest_ns <= both.elapsed_ns);
  meter.Hand(both);
  counters.Add(2, std::chrono::nanoseconds(1));
  (void)meter.EndStep();
  const StepCost next = meter.EndFrame(counters);
  CHECK(next.collected == 1);
  CHECK(next.steps == 1);
  CHECK(next.total_ns() == 1);
}

TEST_CASE("a plan that continues a window takes over its time, and counts its cost anew") {
  CostCounters first, second;
  CostMeter meter;
  meter.BeginPlan(false);
  first.Add(0, std::chrono::nanoseconds(50));
  (void)meter.EndStep();
  meter.BeginPlan(true);
  second.Add(0, std::chrono::nanoseconds(5));
  (void)meter.EndStep();
  StepCost cost = meter.EndFrame(second);
  CHECK(cost.steps == 2);
  CHECK(cost.total_ns() == 5);
  meter.BeginPlan(false);
  (void)meter.EndStep();
  cost = meter.EndFrame(CostCounters());
  CHECK(cost.steps == 1);
  CHECK(cost.collected == 1);
}

TEST_CASE("collected steps are reported with the time of all steps since the one before, and measuring by kinds") {
  StartedRun run;
  run.PublishPlan({1, {0, 3, 100}});
  for (int i = 0; i < 10; ++i) run.TrainStep(4);
  REQUIRE(run.drain.Flush(std::chrono::seconds(10)));
  const StepCost cost = run.board.cost_so_far();
  CHECK(cost.collected == 3);
  CHECK(cost.steps == 9);  // from the first of the plan
  CHECK(cost.elapsed_ns > cost.total_ns());
  CHECK(cost.ns[static_cast<size_t>(SiteKind::kGradReduced)] > 0);
  CHECK(cost.ns[kBoundaryCost] > 0);
  CHECK(run.board.TakeMeasured().empty());  // nobody acts upon it
}

TEST_CASE("the time of a batch is shared by the kinds of its tensors that are collected, as they weigh") {
  StartedRun run;
  auto plan = std::make_shared<plan::Plan>(*MakePlan({1, {0, 1, 100}, 3}));
  plan->config.own.budget = config::Budget{1};
  plan->layout.sites[1].kind = SiteKind::kExpAvg;
  plan->layout.sites[2].kind = SiteKind::kExpAvgSq;
  plan->layout.sites[2].group = 1;
  plan->layout.groups.push_back({.every = 1000});
  run.Put(run.MakePending(plan));
  run.plane.plans.EndStep();
  const std::vector<float> values(100000, 1.0f);
  const int64_t small = 1000, large = 100000;
  const Observation at[] = {{0}, {1}, {2}};
  const TensorView views[] = {DenseView(values.data(), DType::kFloat32, &small, 1),
                              DenseView(values.data(), DType::kFloat32, &large, 1),
                              DenseView(values.data(), DType::kFloat32, &large, 1)};
  run.plane.recorder.ObserveBatch(at, views, 3);
  run.Produced(1, 2);
  run.plane.plans.EndStep();
  REQUIRE(run.drain.Flush(std::chrono::seconds(10)));
  const std::vector<StepsMeasured> measured = run.board.TakeMeasured();
  REQUIRE(measured.size() == 1);
  CHECK(measured[0].plan_id == 1);
  CHECK(measured[0].is_first);
  const auto ns = [&](SiteKind kind) { return static_cast<double>(measured[0].cost.ns[static_cast<size_t>(kind)]); };
  const double share = (4096.0 + 4 * 100000) / (4096.0 + 4 * 1000);
  CHECK(ns(SiteKind::kExpAvg) == Approx(share * ns(SiteKind::kGradReduced)).epsilon(0.01));
  CHECK(ns(SiteKind::kExpAvgSq) == 0);
}

}  // namespace
}  // namespace stepwatch::step
