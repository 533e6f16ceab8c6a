// The history of a job whose ranks agree: rank 0 writes it for all.
#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("rank 0's history tells what the ranks agreed on, and what they refused") {
  const std::string refused = ConfigText({.collect_times = 7}), last = ConfigText({.collect_times = 8});
  RankedJob job(2, ConfigText({.collect_times = 1000000}));
  auto garbling = std::make_shared<Garbling>(job[1].options.store);
  job[1].options.store = garbling;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  garbling->garbles = true;
  CHECK(job[0].Edit(refused) == RefreshOutcome::kRefused);
  REQUIRE(job.WaitForAll(EventKind::kAborted));
  garbling->garbles = false;
  CHECK(job[0].Edit(last) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  job.Close();

  CHECK(!std::filesystem::exists(job[1].output_dir + "/stepwatch_history.jsonl"));
  const auto found = output::FindHistories(job[0].output_dir);
  REQUIRE(found.ok());
  std::vector<std::string> told;
  for (const output::HistoryLine& line : found.value().at(0).history.lines) {
    CHECK(line.run_id == found.value().at(0).history.lines.front().run_id);
    if (line.sha256 == base::Sha256Hex(refused)) told.push_back(line.outcome);
    if (line.outcome == "refused") CHECK(line.message.find("rank 1 cannot apply it") != std::string::npos);
    if (line.outcome != "applied" || line.sha256 != base::Sha256Hex(last)) continue;
    told.push_back("then applied");
    CHECK(line.owner_uid == static_cast<int64_t>(::geteuid()));
    CHECK(line.old_sha256 == base::Sha256Hex(refused));
    CHECK(line.step == job[0].Events(EventKind::kApplied).at(1).step);
  }
  std::sort(told.begin(), told.end());
  CHECK(told == std::vector<std::string>{"aborted", "refused", "then applied"});
}

}  // namespace
}  // namespace stepwatch::testing
