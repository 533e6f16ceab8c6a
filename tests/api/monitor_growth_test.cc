// The model grows while the job runs: Attach once more.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

constexpr int kBefore = 2, kAfter = 5;  // layers

using RowCounts = std::map<int64_t, int>;

// A job whose model grows by three layers.
struct GrowingJob : Job {
  explicit GrowingJob(const std::string& config) : Job(config, kBefore) {}
  ~GrowingJob() { Close(); }
  void Grow() { REQUIRE(monitor->Attach(grown.Sites(), &grown).ok()); }
  // All of a step but its end.
  void Observe() { model.TrainStep(monitor->recorder(), monitor->step()); }

  SyntheticModel grown{kAfter, 8, 1};
};

TEST_CASE("a model that grows in mid-window is watched whole from the next step, and the count goes on") {
  const bool dynamic = GENERATE(true, false), is_known = GENERATE(true, false);
  GrowingJob job(ConfigText({.collect_times = 4, .step_interval = 2}));
  job.options.dynamic = dynamic;
  const int64_t first = dynamic ? 1 : 0;
  job.Start();
  job.TrainSteps(first + 3);                                // collected: first, first + 2
  if (is_known) REQUIRE(job.WaitFor(EventKind::kApplied));  // else the loop may not know yet that the window has begun
  job.Grow();
  job.TrainSteps(job.grown, 9);
  job.Close();
  CHECK(job.RowsByStep("grad_reduced") ==
        RowCounts{{first, kBefore}, {first + 2, kBefore}, {first + 4, kAfter}, {first + 6, kAfter}});
  CHECK(job.Count(EventKind::kWroteBack) == (dynamic ? 1 : 0));
}

TEST_CASE("a model that grows after its window has ended starts nothing") {
  const bool dynamic = GENERATE(true, false);
  GrowingJob job(ConfigText({.collect_times = 1}));
  job.options.dynamic = dynamic;
  job.Start();
  job.TrainSteps(2);
  job.Grow();
  job.TrainSteps(job.grown, 4);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{dynamic ? 1 : 0});
  CHECK(job.Count(EventKind::kApplied) == 1);
  CHECK(job.Count(EventKind::kWroteBack) == (dynamic ? 1 : 0));
}

TEST_CASE("a plan that does not collect yet when the model grows collects the grown model, at its step") {
  const bool is_armed = GENERATE(true, false);
  GrowingJob job(ConfigText(Off()));
  job.Start();
  job.TrainSteps(2);
  if (!is_armed) job.Grow();
  CHECK(job.Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  if (is_armed) job.Grow();
  job.TrainSteps(job.grown, 4);
  job.Close();
  CHECK(job.RowsByStep("grad_reduced") == RowCounts{{3, kAfter}, {4, kAfter}});
}

TEST_CASE("the plan in force is compiled for the grown model after a refused edit was taken back") {
  GrowingJob job(ConfigText({.collect_times = 4}));
  job.Start();
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kApplied));
  CHECK(job.Edit("{") == RefreshOutcome::kRefused);
  CHECK(job.Edit(ConfigText({.collect_times = 4})) == RefreshOutcome::kUnchanged);
  job.Grow();
  job.TrainSteps(job.grown, 5);
  job.Close();
  CHECK(job.RowsByStep("grad_reduced") == RowCounts{{1, kBefore}, {2, kAfter}, {3, kAfter}, {4, kAfter}});
}

TEST_CASE("a model that grows in mid-step keeps the plan for this step, hooked anew, and is watched whole afterwards") {
  const bool dynamic = GENERATE(true, false);
  GrowingJob job(ConfigText({.collect_times = 3}));
  job.options.dynamic = dynamic;
  const int64_t first = dynamic ? 1 : 0;
  job.Start();
  job.TrainSteps(first + 1);
  job.Observe();
  SyntheticModel once(kBefore + 1, 8, 1);
  REQUIRE(job.monitor->Attach(once.Sites(), &once).ok());
  job.Grow();
  const PlanId plan = job.monitor->GetStatus().plan_id;
  CHECK(plan == 1);
  job.TrainSteps(job.grown, 1);  // as much again of the same step
  CHECK(job.monitor->GetStatus().plan_id > plan);
  job.TrainSteps(job.grown, 3);
  job.Close();
  CHECK(job.RowsByStep("grad_reduced") == RowCounts{{first, kBefore}, {first + 1, 2 * kBefore}, {first + 2, kAfter}});
}

}  // namespace
}  // namespace stepwatch::testing
