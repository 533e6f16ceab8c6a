// Jobs of several ranks: edits, stops, write-backs and the run id.
#include <map>
#include <random>

#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("an edit that rank 0 finds is collected by all ranks at the same steps, and written back once") {
  RankedJob job(4, ConfigText(Off()));
  job.Start();
  job.Run(milliseconds(3));
  job[0].Save(ConfigText({.collect_times = 5}));
  CHECK(job[0].Refresh() == RefreshOutcome::kArmed);
  REQUIRE(job.Settle(1));
  CHECK(Contents(job[0].config_path) == ConfigText({.dynamic_on = false, .collect_times = 5}));
  job.Close();
  const int64_t first = job[0].Events(EventKind::kApplied).at(0).step;
  for (auto& rank : job.ranks) {
    INFO("rank " << rank->options.rank);
    CHECK(rank->Steps("grad_reduced") == From(first, 5));
    CHECK(rank->Count(EventKind::kWroteBack) == (rank->options.rank == 0 ? 1 : 0));
    CHECK(rank->Events(EventKind::kApplied).at(0).plan_id == 1);
  }
}

TEST_CASE("edit after edit, the ranks stay together: changes, stops, and the same text again") {
  RankedJob job(3, ConfigText({.collect_times = 1000000}));
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  CHECK(job[0].Edit(ConfigText({.collect_times = 1000000, .gradients = false})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  CHECK(job[0].Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  REQUIRE(job.WaitForAll(EventKind::kFinished, 2));
  CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 3));
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 4));
  job.Close();
  for (size_t rank = 1; rank < 3; ++rank) {
    INFO("rank " << rank);
    CHECK(job[rank].Steps("grad_reduced") == job[0].Steps("grad_reduced"));
    CHECK(job[rank].Steps("param_origin") == job[0].Steps("param_origin"));
    for (size_t i = 0; i < 4; ++i) {
      CHECK(job[rank].Events(EventKind::kApplied).at(i).step == job[0].Events(EventKind::kApplied).at(i).step);
      CHECK(job[rank].Events(EventKind::kApplied).at(i).plan_id == job[0].Events(EventKind::kApplied).at(i).plan_id);
      CHECK(job[rank].Events(EventKind::kFinished).at(i).step == job[0].Events(EventKind::kFinished).at(i).step);
    }
  }
}

TEST_CASE("with time enough, an edit is collected two steps later than one process would") {
  RankedJob job(2, ConfigText(Off()));
  job.Start();
  for (auto& rank : job.ranks) rank->TrainSteps(4);
  CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  for (int i = 0; i < 6; ++i)
    for (auto& rank : job.ranks) rank->TrainStep();
  job.Close();
  for (auto& rank : job.ranks) CHECK(rank->Steps("grad_reduced") == Steps{7, 8});
}

TEST_CASE("ranks that are far apart agree at the second proposal: the first says how far") {
  RankedJob job(2, ConfigText(Off()));
  job.Start();
  job[1].TrainSteps(500);
  CHECK(job[0].Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  CHECK(job[0].Count(EventKind::kAborted) == 1);
  REQUIRE(job[1].WaitFor(EventKind::kArmed));
  job[1].TrainSteps(20);
  job[0].TrainSteps(520);
  job.Close();
  CHECK(job[0].Steps("grad_reduced") == Steps{505, 506});
  CHECK(job[1].Steps("grad_reduced") == Steps{505, 506});
}

TEST_CASE("rank 0 outside of module_ranks counts for the job, and writes back") {
  RankedJob job(3, ConfigText(Off()));
  job.Start();
  job.Run(milliseconds(2));
  job[0].Edit(ConfigText({.collect_times = 3}, ", \"module_ranks\": [1]"));
  REQUIRE(job.Settle(1));
  job.Close();
  CHECK(job[1].Steps("grad_reduced").size() == 3);
  CHECK(job[0].output_dir.empty());
  CHECK(job[2].output_dir.empty());
}

TEST_CASE("dynamic_on becomes false when all ranks have told that their rows are written, not before") {
  RankedJob job(2, ConfigText(Off()));
  job.Start();
  job.Run(milliseconds(2));
  job.stores[1]->HoldWritten();
  job[0].Edit(ConfigText({.collect_times = 2}));
  REQUIRE(job.WaitForAll(EventKind::kDrained));
  // Rank 1's word is on its way, rank 0 has its own, and has been told several times that there is no other: a request
  // follows the answer to the one before it.
  REQUIRE(Eventually([&] { return job.stores[1]->held() > 0; }));
  const int asked = job.stores[0]->written_asked();
  REQUIRE(Eventually([&] { return job.stores[0]->written_asked() >= asked + 3; }));
  CHECK(job[0].Count(EventKind::kWroteBack) == 0);
  CHECK(Contents(job[0].config_path) == ConfigText({.collect_times = 2}));
  job.stores[1]->LetGo();
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  CHECK(Contents(job[0].config_path) == ConfigText({.dynamic_on = false, .collect_times = 2}));
  job.Close();
}

TEST_CASE("a write-back that waits for other ranks gives way to a new edit, and is done at the end of rank 0") {
  for (bool edits : {true, false}) {
    RankedJob job(2, ConfigText(Off()));
    job.Start();
    job.Run(milliseconds(2));
    job[0].Edit(ConfigText({.collect_times = 2}));
    REQUIRE(job.WaitForAll(EventKind::kApplied));
    job.stores[1]->HoldWritten();  // its rows are written, and nobody hears of it
    REQUIRE(job.WaitForAll(EventKind::kDrained));
    if (edits) {
      CHECK(job[0].Edit(ConfigText({.collect_times = 3, .gradients = false})) == RefreshOutcome::kArmed);
      REQUIRE(job.WaitForAll(EventKind::kDrained, 2));
      job.stores[1]->LetGo();
      REQUIRE(Eventually([&] {
        return Contents(job[0].config_path) ==
               ConfigText({.dynamic_on = false, .collect_times = 3, .gradients = false});
      }));
    }
    job.Close();
    if (!edits) CHECK(Contents(job[0].config_path) == ConfigText({.dynamic_on = false, .collect_times = 2}));
  }
}

TEST_CASE("a rank that cannot apply an edit ends it for all, with its reason, and the running plan stays everywhere") {
  RankedJob job(2, ConfigText({.collect_times = 1000000}));
  auto garbling = std::make_shared<Garbling>(job[1].options.store);
  job[1].options.store = garbling;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  garbling->garbles = true;
  CHECK(job[0].Edit(ConfigText({.collect_times = 7})) == RefreshOutcome::kRefused);
  REQUIRE(job.WaitForAll(EventKind::kAborted));
  CHECK(job[0].Events(EventKind::kRefused).at(0).message.find("rank 1 cannot apply it") != std::string::npos);
  for (auto& rank : job.ranks) CHECK(rank->monitor->GetStatus().plan_id == 1);
  garbling->garbles = false;
  CHECK(job[0].Edit(ConfigText({.collect_times = 8})) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  job.Close();
  CHECK(job[0].Events(EventKind::kApplied).at(1).step == job[1].Events(EventKind::kApplied).at(1).step);
}

TEST_CASE("a rank that stands still makes the others wait for no one: aborts that all see, then the edit holds") {
  RankedJob job(3, ConfigText(Off()));
  job.Start();
  job.stores[2]->Hold();
  job.Run(milliseconds(1));
  job[0].Save(ConfigText({.collect_times = 3}));
  CHECK(job[0].monitor->Refresh(milliseconds(200)) == RefreshOutcome::kTimedOut);
  REQUIRE(job[0].WaitFor(EventKind::kAborted));
  REQUIRE(job[1].WaitFor(EventKind::kAborted));
  CHECK(job[0].Count(EventKind::kApplied) == 0);
  CHECK(job[0].monitor->GetStatus().state == RunState::kPreparing);
  job.stores[2]->LetGo();
  REQUIRE(job.WaitForAll(EventKind::kAborted));
  REQUIRE(job.Settle(1));
  job.Close();
  for (auto& rank : job.ranks) CHECK(rank->Steps("grad_reduced") == job[0].Steps("grad_reduced"));
  CHECK(job[0].Steps("grad_reduced").size() == 3);
}

TEST_CASE("best effort and local need no votes") {
  for (const char* mode : {"besteffort", "local"}) {
    INFO(mode);
    RankedJob job(2, ConfigText(Off()));
    job.Start();
    job.Run(milliseconds(2));
    // Long enough for a rank that hears of it late to take part.
    job[0].Edit(ConfigText({.collect_times = 200}, std::string(R"(, "stepwatch": {"coordination": ")") + mode + "\"}"));
    REQUIRE(job.Settle(1));
    job.Close();
    for (auto& rank : job.ranks) {  // all 200, but for the steps that a rank was late by
      CHECK(rank->Steps("grad_reduced").size() >= 1);
      CHECK(rank->Steps("grad_reduced").size() <= 200);
    }
  }
}

TEST_CASE("a rank that is none of the job's is told, and goes by itself") {
  RankedJob job(2, ConfigText({.collect_times = 1}));
  job[1].options.rank = 2;
  REQUIRE(job[1].Create().ok());
  REQUIRE(job[1].Count(EventKind::kWarning) == 1);
  CHECK(job[1].Events(EventKind::kWarning).at(0).message.find("rank 2 is outside world_size 2") != std::string::npos);
  REQUIRE(job[1].Attach().ok());
  job[1].TrainSteps(3);
  REQUIRE(job[1].WaitFor(EventKind::kWroteBack));
  job[1].Close();
  CHECK(job[1].Steps("grad_reduced") == Steps{1});
}

TEST_CASE("all ranks of a run share its id, in both modes") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    RankedJob job(3, ConfigText({.collect_times = 2}));
    for (auto& rank : job.ranks) rank->options.dynamic = dynamic;
    for (size_t rank = 3; rank-- > 0;) REQUIRE(job[rank].Create().ok());
    for (auto& rank : job.ranks) REQUIRE(rank->Attach().ok());
    job.Run(milliseconds(2));
    REQUIRE(job.WaitForAll(EventKind::kDrained));
    job.Close();
    const auto id = [](const Job& rank) { return rank.output_dir.substr(rank.output_dir.size() - 8); };
    for (auto& rank : job.ranks) CHECK(id(*rank) == id(job[0]));
    CHECK(job[2].output_dir.find("-rank2-") != std::string::npos);
  }
}

TEST_CASE("a static rank that does not hear of the run id goes by its own, and says so once") {
  RankedJob job(2, ConfigText({.collect_times = 2}));
  for (auto& rank : job.ranks) rank->options.dynamic = false;
  job[1].options.run_id_wait = milliseconds(10);
  REQUIRE(job[1].Create().ok());
  REQUIRE(job[1].Attach().ok());
  job[1].TrainSteps(3);
  REQUIRE(job[1].Attach().ok());
  REQUIRE(job[1].WaitFor(EventKind::kNote));
  job.Close();
  CHECK(job[1].Count(EventKind::kNote) == 1);
  CHECK(job[1].Steps("grad_reduced") == Steps{0, 1});
}

TEST_CASE("random edits of a running job: every edit that was the last is collected at the same steps everywhere") {
  std::mt19937 random(20);
  RankedJob job(3, ConfigText(Off()));
  job.Start();
  job.Run(milliseconds(1));
  for (int i = 0; i < 25; ++i) {
    job[0].Save(i % 5 == 3 ? ConfigText(Off()) : ConfigText({.collect_times = 3 + i, .gradients = random() % 2 == 0}));
    job[0].monitor->Refresh(milliseconds(random() % 4 == 0 ? 0 : 3000));
    std::this_thread::sleep_for(milliseconds(random() % 20));
  }
  job[0].Edit(ConfigText({.collect_times = 50}));
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  REQUIRE(Eventually([&] {
    return std::all_of(job.ranks.begin(), job.ranks.end(), [](auto& rank) {
      return rank->Count(EventKind::kDrained) == rank->Count(EventKind::kApplied) &&
             rank->Events(EventKind::kDrained).back().collected == 50;
    });
  }));
  job.Close();
  const auto applied = [](const Job& rank) {
    std::map<PlanId, int64_t> steps;
    for (const Event& event : rank.Events(EventKind::kApplied)) steps[event.plan_id] = event.step;
    return steps;
  };
  for (size_t rank = 1; rank < 3; ++rank) {
    INFO("rank " << rank);
    CHECK(applied(job[rank]) == applied(job[0]));
    CHECK(job[rank].Steps("grad_reduced") == job[0].Steps("grad_reduced"));
    CHECK(job[rank].Steps("param_origin") == job[0].Steps("param_origin"));
  }
}

}  // namespace
}  // namespace stepwatch::testing
