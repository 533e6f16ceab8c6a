// Jobs of several ranks: edits, stops, write-backs and the run id.
#include <map>
#include <random>

#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("an edit that rank 0 finds is collected by all ranks at the same steps, and written back once") {
  StartedRankedJob job(4, ConfigText(Off()));
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

TEST_CASE("ranks that are far apart agree at the second proposal, for which the first gives the distance") {
  StartedRankedJob job(2, ConfigText(Off()));
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
  StartedRankedJob job(3, ConfigText(Off()));
  job.Run(milliseconds(2));
  job[0].Edit(ConfigText({.collect_times = 3}, ", \"module_ranks\": [1]"));
  REQUIRE(job.Settle(1));
  job.Close();
  CHECK(job[1].Steps("grad_reduced").size() == 3);
  CHECK(job[0].output_dir.empty());
  CHECK(job[2].output_dir.empty());
}

TEST_CASE("dynamic_on becomes false when all ranks have reported that their rows are written, not before") {
  StartedRankedJob job(2, ConfigText(Off()));
  job.Run(milliseconds(2));
  job.stores[1]->HoldWritten();
  job[0].Edit(ConfigText({.collect_times = 2}));
  REQUIRE(job.WaitForAll(EventKind::kDrained));
  // Rank 1's report is on its way, and rank 0 has looked for it several times: a request follows the answer to the one
  // before it.
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
    StartedRankedJob job(2, ConfigText(Off()));
    job.Run(milliseconds(2));
    job[0].Edit(ConfigText({.collect_times = 2}));
    REQUIRE(job.WaitForAll(EventKind::kApplied));
    job.stores[1]->HoldWritten();  // its rows are written, and no rank learns of it
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

TEST_CASE(
    "a rank that cannot apply an edit ends it for all, with its reason, the running plan stays everywhere, and rank 0 "
    "writes the history") {
  const std::string bad = ConfigText({.collect_times = 7}), good = ConfigText({.collect_times = 8});
  RankedJob job(2, ConfigText({.collect_times = 1000000}));
  auto garbling = std::make_shared<Garbling>(job[1].options.store);
  job[1].options.store = garbling;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  garbling->garbles = true;
  CHECK(job[0].Edit(bad) == RefreshOutcome::kRefused);
  REQUIRE(job.WaitForAll(EventKind::kAborted));
  CHECK(Has(job[0].Events(EventKind::kRefused).at(0).message, "rank 1 cannot apply it"));
  for (auto& rank : job.ranks) CHECK(rank->monitor->GetStatus().plan_id == 1);
  garbling->garbles = false;
  CHECK(job[0].Edit(good) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  job.Close();
  const int64_t step = job[0].Events(EventKind::kApplied).at(1).step;
  CHECK(job[1].Events(EventKind::kApplied).at(1).step == step);

  CHECK_FALSE(std::filesystem::exists(job[1].output_dir + "/stepwatch_history.jsonl"));
  const auto found = output::FindHistories(job[0].output_dir);
  REQUIRE(found.ok());
  std::multiset<std::string> outcomes;
  for (const output::HistoryLine& line : found.value().at(0).history.lines) {
    CHECK(line.run_id == found.value().at(0).history.lines.front().run_id);
    if (line.sha256 == base::Sha256Hex(bad)) outcomes.insert(line.outcome);
    if (line.outcome == "refused") CHECK(Has(line.message, "rank 1 cannot apply it"));
    if (line.outcome != "applied" || line.sha256 != base::Sha256Hex(good)) continue;
    outcomes.insert("then applied");
    CHECK(line.owner_uid == static_cast<int64_t>(::geteuid()));
    CHECK(line.old_sha256 == base::Sha256Hex(bad));
    CHECK(line.step == step);
  }
  CHECK(outcomes == std::multiset<std::string>{"aborted", "refused", "then applied"});
}

TEST_CASE("a rank that stands still does not keep the others waiting: all see aborts, then the edit holds") {
  StartedRankedJob job(3, ConfigText(Off()));
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

TEST_CASE("a rank outside the job gets a warning, and goes by itself") {
  RankedJob job(2, ConfigText({.collect_times = 1}));
  job[1].options.rank = 2;
  REQUIRE(job[1].Create().ok());
  REQUIRE(job[1].Count(EventKind::kWarning) == 1);
  CHECK(Has(job[1].Events(EventKind::kWarning).at(0).message, "rank 2 is outside world_size 2"));
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
    CHECK(Has(job[2].output_dir, "-rank2-"));
  }
}

TEST_CASE("a static rank without the run id of the job uses its own, which is noted once") {
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
  StartedRankedJob job(3, ConfigText(Off()));
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
  const auto steps_of = [](const Job& rank, EventKind kind) {
    std::map<PlanId, int64_t> steps;
    for (const Event& event : rank.Events(kind)) steps[event.plan_id] = event.step;
    return steps;
  };
  for (size_t rank = 1; rank < 3; ++rank) {
    INFO("rank " << rank);
    for (const EventKind kind : {EventKind::kApplied, EventKind::kFinished})
      CHECK(steps_of(job[rank], kind) == steps_of(job[0], kind));
    CHECK(job[rank].Steps("grad_reduced") == job[0].Steps("grad_reduced"));
    CHECK(job[rank].Steps("param_origin") == job[0].Steps("param_origin"));
  }
}

}  // namespace
}  // namespace stepwatch::testing
