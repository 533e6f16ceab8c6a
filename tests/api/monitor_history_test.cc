// The history of a run as the monitor writes it: one line for each outcome of an edit or a plan.
#include <map>

#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/api/job.h"
#include "tests/hooked_files.h"

namespace stepwatch::testing {
namespace {

using Outcomes = std::vector<std::string>;

std::vector<output::HistoryLine> LinesOf(const Job& job) {
  const auto found = output::FindHistories(job.output_dir);
  REQUIRE(found.ok());
  CHECK(found.value().at(0).history.notes.empty());
  return found.value().at(0).history.lines;
}

Outcomes OutcomesOf(const std::vector<output::HistoryLine>& lines) {
  Outcomes outcomes;
  for (const auto& line : lines)
    outcomes.push_back((line.plan_id == 0 ? "" : std::to_string(line.plan_id) + " ") + line.outcome);
  return outcomes;
}

TEST_CASE("a run's history has the owner of each edit, the text that it replaced, and its outcome") {
  const std::string first = ConfigText({.collect_times = 2}), second = ConfigText({.collect_times = 9}),
                    third = ConfigText({.collect_times = 50, .step_interval = 3}), bad = "{\n  \"ops\": \"norm\"\n}";
  StartedJob job(first);
  job.TrainSteps(4);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(job.Edit(bad) == RefreshOutcome::kRefused);
  CHECK(job.Edit(second) == RefreshOutcome::kArmed);
  CHECK(job.Edit(third) == RefreshOutcome::kArmed);
  job.TrainSteps(3);
  REQUIRE(job.WaitFor(EventKind::kApplied, 2));
  CHECK(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainSteps(2);
  job.Settle();
  CHECK(job.Edit(first) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  job.Close();

  const auto lines = LinesOf(job);
  CHECK(OutcomesOf(lines) == Outcomes{"1 applied", "1 finished", "refused", "2 superseded", "3 applied", "3 stopping",
                                      "3 stopped", "4 applied", "4 closed"});
  CHECK(lines[0].sha256 == base::Sha256Hex(first));
  CHECK(lines[0].old_sha256.empty());
  CHECK(lines[0].step == 1);
  CHECK(lines[0].owner_uid == static_cast<int64_t>(::geteuid()));
  CHECK(lines[0].modified.size() == std::string("2026-11-22T17:34:39.123Z").size());
  CHECK(lines[0].config_path == job.config_path);
  CHECK(lines[1].collected == 2);
  CHECK(lines[1].step == 2);
  REQUIRE(lines[1].ledger);
  CHECK(lines[1].ledger->balanced());
  CHECK(lines[1].ledger->written == 2 * 4);
  CHECK(lines[2].sha256 == base::Sha256Hex(bad));
  CHECK(lines[2].place.line == 2);
  CHECK(lines[2].place.key == "ops");
  CHECK(!lines[2].message.empty());
  CHECK(lines[3].sha256 == base::Sha256Hex(second));
  CHECK(lines[3].old_sha256 == base::Sha256Hex(bad));
  CHECK(lines[4].old_sha256 == base::Sha256Hex(second));
  CHECK(lines[5].sha256 == base::Sha256Hex(ConfigText(Off())));
  CHECK(lines[6].sha256 == base::Sha256Hex(third));
  CHECK(lines[7].old_sha256 == base::Sha256Hex(ConfigText(Off())));
  for (const auto& line : lines) {
    const auto text = output::KeptConfig(job.output_dir, line.sha256);
    REQUIRE(text.ok());
    CHECK(base::Sha256Hex(text.value()) == line.sha256);
    CHECK(static_cast<size_t>(line.bytes) == text.value().size());
  }
}

TEST_CASE("in static mode the history has the one plan") {
  Job job(ConfigText({.collect_times = 3}));
  job.options.dynamic = false;
  job.Start();
  job.TrainSteps(5);
  job.Close();
  CHECK(OutcomesOf(LinesOf(job)) == Outcomes{"1 applied", "1 finished"});
}

TEST_CASE("a history that cannot be written is reported once, and whole when it can be") {
  Job job(ConfigText({.collect_times = 2}));
  class NoHistory : public base::FileSystemWrapper {
   public:
    int Open(const char* path, int flags, mode_t mode) override {
      const bool is_history = std::string(path).find("stepwatch_history") != std::string::npos;
      return is_history && is_full ? (errno = ENOSPC, -1) : FileSystemWrapper::Open(path, flags, mode);
    }
    std::atomic<bool> is_full = true;
  } files;
  job.Start(files);
  job.TrainSteps(4);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack, 2));
  CHECK(job.Count(EventKind::kDegraded) == 1);
  CHECK(job.Events(EventKind::kDegraded)[0].message.find("stepwatch_history.jsonl: ") == 0);
  files.is_full = false;
  REQUIRE(job.WaitFor(EventKind::kRecovered));
  job.Close();
  CHECK(OutcomesOf(LinesOf(job)) == Outcomes{"1 applied", "1 finished", "2 applied", "2 finished"});
}

}  // namespace
}  // namespace stepwatch::testing
