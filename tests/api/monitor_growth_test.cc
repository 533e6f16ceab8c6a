// The model grows while the job runs: Attach once more.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

// The same job with three layers more.
void Grow(Job* job, SyntheticModel* grown) {
  REQUIRE(job->monitor->Attach(grown->Sites(), grown).ok());
}

void TrainSteps(Job* job, SyntheticModel* model, int count) {
  for (int i = 0; i < count; ++i) {
    model->TrainStep(job->monitor->recorder(), job->monitor->step());
    job->monitor->EndStep();
  }
}

constexpr int kBefore = 2, kAfter = 5;  // layers

TEST_CASE("a model that grows in mid-window is watched whole from the next step, and the count goes on") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 4, .step_interval = 2}), kBefore);
    job.options.dynamic = dynamic;
    SyntheticModel grown(kAfter, 8, 1);
    const int64_t first = dynamic ? 1 : 0;
    job.Start();
    job.TrainSteps(first + 3);  // collected: first, first + 2
    REQUIRE(job.WaitFor(EventKind::kApplied));
    Grow(&job, &grown);
    TrainSteps(&job, &grown, 9);
    job.Close();
    const std::map<int64_t, int> expected{
        {first, kBefore}, {first + 2, kBefore}, {first + 4, kAfter}, {first + 6, kAfter}};
    CHECK(job.RowsByStep("grad_reduced") == expected);
    CHECK(job.Count(EventKind::kWroteBack) == (dynamic ? 1 : 0));
  }
}

TEST_CASE("a model that grows before the loop has heard of the window keeps it all the same") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 4}), kBefore);
    job.options.dynamic = dynamic;
    SyntheticModel grown(kAfter, 8, 1);
    job.Start();
    job.TrainSteps(dynamic ? 3 : 2);
    Grow(&job, &grown);
    TrainSteps(&job, &grown, 6);
    job.Close();
    const int64_t first = dynamic ? 1 : 0;
    CHECK(job.Steps("grad_reduced") == Steps{first, first + 1, first + 2, first + 3});
  }
}

TEST_CASE("a model that grows after its window has ended starts nothing") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 1}), kBefore);
    job.options.dynamic = dynamic;
    SyntheticModel grown(kAfter, 8, 1);
    job.Start();
    job.TrainSteps(2);
    Grow(&job, &grown);
    TrainSteps(&job, &grown, 4);
    job.Close();
    CHECK(job.Steps("grad_reduced") == Steps{dynamic ? 1 : 0});
    CHECK(job.Count(EventKind::kApplied) == 1);
    CHECK(job.Count(EventKind::kWroteBack) == (dynamic ? 1 : 0));
  }
}

TEST_CASE("a plan that is armed when the model grows starts with the grown model, at its step") {
  Job job(ConfigText(Off()), kBefore);
  SyntheticModel grown(kAfter, 8, 1);
  job.Start();
  job.TrainSteps(2);
  CHECK(job.Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  Grow(&job, &grown);
  TrainSteps(&job, &grown, 4);
  job.Close();
  const std::map<int64_t, int> expected{{3, kAfter}, {4, kAfter}};
  CHECK(job.RowsByStep("grad_reduced") == expected);
}

TEST_CASE("a model that grows after a refused edit was taken back is compiled for the grown model") {
  Job job(ConfigText({.collect_times = 4}), kBefore);
  SyntheticModel grown(kAfter, 8, 1);
  job.Start();
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kApplied));
  CHECK(job.Edit("{") == RefreshOutcome::kRefused);
  CHECK(job.Edit(ConfigText({.collect_times = 4})) == RefreshOutcome::kUnchanged);
  Grow(&job, &grown);
  TrainSteps(&job, &grown, 5);
  job.Close();
  const std::map<int64_t, int> expected{{1, kBefore}, {2, kAfter}, {3, kAfter}, {4, kAfter}};
  CHECK(job.RowsByStep("grad_reduced") == expected);
}

TEST_CASE("a model that grows while nothing runs is used by the next plan") {
  Job job(ConfigText(Off()), kBefore);
  SyntheticModel grown(kAfter, 8, 1);
  job.Start();
  job.TrainStep();
  Grow(&job, &grown);
  job.Edit(ConfigText({.collect_times = 1}));
  TrainSteps(&job, &grown, 3);
  job.Close();
  const std::map<int64_t, int> expected{{2, kAfter}};
  CHECK(job.RowsByStep("grad_reduced") == expected);
}

TEST_CASE(
    "a model that grows in mid-step keeps the plan for this step, on the hooks of now, and is watched whole from the "
    "next") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 3}), kBefore);
    job.options.dynamic = dynamic;
    SyntheticModel grown(kAfter, 8, 1);
    const int64_t first = dynamic ? 1 : 0;
    job.Start();
    job.TrainSteps(first + 1);
    job.model.TrainStep(job.monitor->recorder(), job.monitor->step());
    Grow(&job, &grown);
    CHECK(job.monitor->GetStatus().plan_id == 1);
    TrainSteps(&job, &grown, 1);  // as much again of the same step
    CHECK(job.monitor->GetStatus().plan_id == 2);
    TrainSteps(&job, &grown, 3);
    job.Close();
    const std::map<int64_t, int> expected{{first, kBefore}, {first + 1, 2 * kBefore}, {first + 2, kAfter}};
    CHECK(job.RowsByStep("grad_reduced") == expected);
  }
}

TEST_CASE("a model that grows twice in mid-step is hooked as it is in the end") {
  Job job(ConfigText({.collect_times = 2}), kBefore);
  SyntheticModel once(kBefore + 1, 8, 1), grown(kAfter, 8, 1);
  job.Start();
  job.TrainStep();
  job.model.TrainStep(job.monitor->recorder(), job.monitor->step());
  Grow(&job, &once);
  Grow(&job, &grown);
  TrainSteps(&job, &grown, 3);
  job.Close();
  const std::map<int64_t, int> expected{{1, 2 * kBefore}, {2, kAfter}};
  CHECK(job.RowsByStep("grad_reduced") == expected);
}

TEST_CASE("a model that grows in mid-step while an edit is armed goes over to the edit at the boundary") {
  Job job(ConfigText({.collect_times = 9}), kBefore);
  SyntheticModel grown(kAfter, 8, 1);
  job.Start();
  job.TrainStep();
  job.model.TrainStep(job.monitor->recorder(), job.monitor->step());
  CHECK(job.Edit(ConfigText({.collect_times = 1})) == RefreshOutcome::kArmed);
  Grow(&job, &grown);
  job.monitor->EndStep();
  TrainSteps(&job, &grown, 2);
  job.Close();
  const std::map<int64_t, int> expected{{1, kBefore}, {2, kAfter}};
  CHECK(job.RowsByStep("grad_reduced") == expected);
  CHECK(job.Count(EventKind::kApplied) == 2);
}

}  // namespace
}  // namespace stepwatch::testing
