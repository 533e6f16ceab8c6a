// The windows that a job has done, from the histories of its starts.
#include "src/output/applied_configs.h"

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::output {
namespace {

const std::string kA = base::Sha256Hex("A"), kB = base::Sha256Hex("B"), kAOff = base::Sha256Hex("A off");

struct Line {
  std::string outcome;
  std::string sha256 = kA;
  int64_t step = 5;
  bool is_volatile = false;
  std::string job_id = "job 7";
  std::string config_path = "/job/config.json";
};

// A directory with the histories of several starts, one after the other.
struct Starts {
  void Add(const std::vector<Line>& lines) {
    std::vector<HistoryEntry> entries;
    for (const Line& line : lines) {
      HistoryEntry entry;
      entry.line.time = UtcText(1'700'000'000'000'000'000 + ++time_ * 1'000'000);
      entry.line.run_id = "run" + std::to_string(starts_);
      entry.line.job_id = line.job_id;
      entry.line.config_path = line.config_path;
      entry.line.outcome = line.outcome;
      entry.line.sha256 = line.sha256;
      entry.line.step = line.step;
      entry.line.is_volatile = line.is_volatile;
      entries.push_back(entry);
    }
    // The names are in another order than the times.
    REQUIRE(AppendHistory(directory / ("run" + std::to_string(9 - starts_++)), entries).ok());
  }
  Result<std::optional<HistoryLine>> Find(const std::string& job_id = "job 7") const {
    return FindDoneWindow(directory / "", job_id, "/job/config.json", kA);
  }
  bool IsDone() const { return Find().value().has_value(); }

  testing::TemporaryDirectory directory;

 private:
  int starts_ = 0;
  int64_t time_ = 0;
};

TEST_CASE("a window is done if it was collected to its end, and nothing else was in the file since") {
  Starts starts;
  CHECK_FALSE(starts.IsDone());
  starts.Add({{"applied", kA, 1}});
  CHECK_FALSE(starts.IsDone());  // killed in its midst
  starts.Add({{"applied", kA, 1}, {"finished", kA, 12}});
  REQUIRE(starts.IsDone());
  CHECK(starts.Find().value()->step == 12);
  CHECK(starts.Find().value()->run_id == "run1");
  starts.Add({{"not_begun", kA, 12}});
  CHECK(starts.Find().value()->run_id == "run1");
  starts.Add({{"applied", kA, 3}, {"closed", kA, 4}});
  CHECK_FALSE(starts.IsDone());
  starts.Add({{"applied", kA, 3}, {"limited", kA, 7}});
  CHECK(starts.Find().value()->outcome == "limited");
}

TEST_CASE("a text that came into the file after another one is new") {
  for (const char* outcome : {"applied", "finished", "refused", "aborted", "superseded", "stopping"}) {
    Starts starts;
    starts.Add({{"applied"}, {"finished"}, {outcome, kB}});
    CHECK_FALSE(starts.IsDone());
  }
  Starts written;
  written.Add({{"applied"}, {"finished"}, {"written_back", kAOff}});
  CHECK_FALSE(written.IsDone());
}

TEST_CASE("a window that was given while the file held another text changes nothing") {
  Starts starts;
  starts.Add({{"applied"}, {"finished"}, {"applied", kB, 20, true}, {"finished", kB, 21, true}});
  CHECK(starts.IsDone());
  Starts given;
  given.Add({{"applied", kA, 1, true}, {"finished", kA, 2, true}});
  CHECK_FALSE(given.IsDone());
}

TEST_CASE("other jobs and other files are not this one") {
  Starts starts;
  starts.Add({{"applied"}, {"finished"}});
  CHECK_FALSE(starts.Find("job 8").value());
  starts.Add({{"applied", kB, 1, false, "job 8"}, {"applied", kB, 1, false, "job 7", "/job/other.json"}});
  CHECK(starts.IsDone());
}

TEST_CASE("a history that cannot be read makes it unknown whether a window is done, unless another has its end") {
  Starts starts;
  std::filesystem::create_directory(starts.directory / "broken");
  testing::WriteInPlace(starts.directory / "broken/stepwatch_history.jsonl", "no line of a history\n");
  CHECK(starts.Find().status().code() == StatusCode::kUnavailable);
  CHECK(starts.Find().status().message().find("broken/stepwatch_history.jsonl") != std::string::npos);
  starts.Add({{"applied"}, {"finished"}});
  CHECK(starts.IsDone());
  testing::WriteInPlace(starts.directory / "broken/stepwatch_history.jsonl", "{\"version\": 1, \"outco");
  CHECK(starts.IsDone());
}

}  // namespace
}  // namespace stepwatch::output
