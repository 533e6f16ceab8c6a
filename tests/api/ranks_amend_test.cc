// Jobs of several ranks: the program changes the plan that runs, or the model grows.
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("each rank amends its own plan at the step of its call, and the next edit replaces it on all at one step") {
  StartedRankedJob job(2, ConfigText({.collect_times = 1000}));
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  job.TrainSteps(5);
  for (auto& rank : job.ranks) CHECK(rank->monitor->Amend(Xy()).ok());
  job.TrainSteps(3);
  CHECK(job[0].Edit(ConfigText({.collect_times = 2, .gradients = false})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kArmed, 3));
  job.TrainSteps(8);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 3));
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  job.Close();
  const int64_t edit = job[0].Events(EventKind::kApplied).at(2).step;
  for (auto& rank : job.ranks) {
    INFO("rank " << rank->options.rank);
    CHECK(rank->Steps("actv") == From(5, edit - 5));
    CHECK(rank->Steps("param_origin") == From(edit, 2));
    CHECK(rank->Events(EventKind::kApplied).at(2).plan_id == 3);
  }
}

TEST_CASE("an edit that the ranks have agreed on stays as it is in the file, for the step they agreed on") {
  StartedRankedJob job(2, ConfigText({.collect_times = 1000}));
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  job.TrainSteps(5);
  CHECK(job[0].Edit(ConfigText({.collect_times = 2, .gradients = false})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kArmed, 2));
  for (auto& rank : job.ranks) CHECK(rank->monitor->Amend(Xy()).ok());
  job.TrainSteps(8);
  job.Close();
  for (auto& rank : job.ranks) {
    INFO("rank " << rank->options.rank);
    CHECK(rank->Steps("actv") == Steps{5, 6, 7});
    CHECK(rank->Steps("param_origin") == Steps{8, 9});
  }
}

TEST_CASE("without a plan in force, an edit that the ranks agree on is not amended, which is noted") {
  StartedRankedJob job(2, ConfigText(Off()));
  job.TrainSteps(4);
  CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  for (auto& rank : job.ranks) CHECK(rank->monitor->Amend(Xy()).ok());
  job.TrainSteps(8);
  job.Close();
  for (auto& rank : job.ranks) {
    CHECK(rank->Steps("actv").empty());
    CHECK(rank->Steps("grad_reduced") == Steps{7, 8});
    REQUIRE(rank->Count(EventKind::kNote) == 1);
    CHECK(rank->Events(EventKind::kNote)[0].message ==
          "the change set by the program does not apply to the edit that the ranks agree on");
  }
}

TEST_CASE("a window that was amended on some ranks is written back when all have written it, without delay") {
  for (size_t amended : {0, 1}) {
    INFO("rank " << amended);
    StartedRankedJob job(2, ConfigText({.collect_times = 4}));
    REQUIRE(job.WaitForAll(EventKind::kArmed));
    job.TrainSteps(5);
    CHECK(job[amended].monitor->Amend(Xy()).ok());
    job.TrainSteps(5);
    REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
    CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
    REQUIRE(job[1 - amended].WaitFor(EventKind::kArmed, 2));
    REQUIRE(job[amended].WaitFor(EventKind::kArmed, 3));
    job.TrainSteps(5);
    REQUIRE(job[0].WaitFor(EventKind::kWroteBack, 2));
    job.Close();
    CHECK(job[0].Steps("grad_reduced") == job[1].Steps("grad_reduced"));
  }
}

TEST_CASE("an edit that the ranks rejected leaves no trace: the plan in force is compiled again") {
  for (bool amends : {true, false}) {
    INFO("amends " << amends);
    RankedJob job(2, ConfigText({.collect_times = 1000000}));
    auto garbling = std::make_shared<Garbling>(job[1].options.store);
    job[1].options.store = garbling;
    SyntheticModel grown(5, 8, 1);
    job.Start();
    REQUIRE(job.WaitForAll(EventKind::kArmed));
    job.TrainSteps(5);
    garbling->garbles = true;
    CHECK(job[0].Edit(ConfigText({.collect_times = 7, .gradients = false})) == RefreshOutcome::kRefused);
    if (amends) {
      CHECK(job[0].monitor->Amend(Xy()).ok());
    } else {
      REQUIRE(job[0].monitor->Attach(grown.Sites(), &grown).ok());
    }
    job.TrainSteps(2);
    job.Close();
    CHECK(job[0].Count(EventKind::kApplied) == 2);
    CHECK(job[0].Steps("param_origin").empty());
  }
}

TEST_CASE("a model that grows between a rank's vote and the decision is watched whole") {
  RankedJob job(2, ConfigText(Off()));
  SyntheticModel grown(5, 8, 1);
  job.Start();
  job.TrainSteps(4);
  job.stores[1]->HoldAfterVote();
  job[0].Save(ConfigText({.collect_times = 2}));
  CHECK(job[0].monitor->Refresh(milliseconds(10000)) == RefreshOutcome::kArmed);
  REQUIRE(job[1].monitor->Attach(grown.Sites(), &grown).ok());
  job.stores[1]->LetGo();
  REQUIRE(job[1].WaitFor(EventKind::kArmed));
  for (int i = 0; i < 6; ++i) {
    grown.TrainStep(job[1].monitor->recorder(), job[1].monitor->step());
    job[1].monitor->EndStep();
    job[0].TrainStep();
  }
  job.Close();
  const std::map<int64_t, int> expected{{7, 5}, {8, 5}};
  CHECK(job[1].RowsByStep("grad_reduced") == expected);
}

}  // namespace
}  // namespace stepwatch::testing
