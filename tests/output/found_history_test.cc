// Histories in a directory where others may put what they like: none of it holds a training process, or costs it more
// than the answer.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/output/applied_configs.h"
#include "src/output/history_file.h"
#include "tests/catch.h"
#include "tests/rounds.h"
#include "tests/temporary_directory.h"

namespace stepwatch::output {
namespace {

using testing::TemporaryDirectory;

constexpr char kConfigPath[] = "/job/config.json";
const std::string kFirstText = "{\"a\": 1}", kSecondText = "{\"a\": 2}";

HistoryEntry EntryOf(const std::string& outcome, const std::string& text, int second) {
  HistoryEntry entry;
  entry.line.time = UtcText(1'700'000'000'000'000'000 + second * int64_t{1'000'000'000});
  entry.line.run_id = "run";
  entry.line.job_id = "job 7";
  entry.line.config_path = kConfigPath;
  entry.line.outcome = outcome;
  entry.line.plan_id = static_cast<PlanId>(second);
  entry.line.sha256 = base::Sha256Hex(text);
  entry.config_text = std::make_shared<const std::string>(text);
  return entry;
}

// A run of ours in an output base, with two configs, the second of which is done.
struct SharedBase {
  SharedBase() {
    REQUIRE(AppendHistory(run, {EntryOf("applied", kFirstText, 1), EntryOf("applied", kSecondText, 2),
                                EntryOf("finished", kSecondText, 3)})
                .ok());
  }
  void CheckThatOursAreFound() const {
    const auto done = FindDoneWindow(directory.path(), "job 7", kConfigPath, base::Sha256Hex(kSecondText));
    INFO(done.status().message());
    REQUIRE(done.ok());
    CHECK(done.value());
    const auto other = FindDoneWindow(directory.path(), "job 7", kConfigPath, base::Sha256Hex(kFirstText));
    INFO(other.status().message());
    CHECK(other.ok());
    const auto old = FindOldConfig(directory.path(), kConfigPath, 0);
    INFO(old.status().message());
    REQUIRE(old.ok());
    CHECK(old.value().text == kFirstText);
  }

  TemporaryDirectory directory;
  const std::string run = directory / "Nov_ours";
  const std::string history = run + "/stepwatch_history.jsonl";
};

// The most memory that the process has had since the last call, in bytes.
size_t PeakSinceLastCall() {
  std::ifstream status("/proc/self/status");
  size_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  std::ofstream("/proc/self/clear_refs") << "5";
  return kilobytes << 10;
}

// Sanitizers add memory of their own.
void CheckPeak(size_t before, size_t more_max) {
  if (!testing::kIsSanitized) CHECK(PeakSinceLastCall() - before < more_max);
}

TEST_CASE("entries that somebody puts beside our runs neither hold nor mislead a search for ours") {
  const SharedBase place;
  // In a run's directory, or in the place of the base's own history.
  for (const char* in : {"/Nov_theirs", ""}) {
    std::filesystem::create_directories(place.directory.path() + in);
    const std::string theirs = place.directory.path() + in + "/stepwatch_history.jsonl";
    for (const std::string kind : {"FIFO", "endless device", "link to ours", "directory", "file of another user"}) {
      INFO(kind << " at " << theirs);
      if (kind == "FIFO") REQUIRE(::mkfifo(theirs.c_str(), 0666) == 0);
      if (kind == "endless device") std::filesystem::create_symlink("/dev/zero", theirs);
      if (kind == "link to ours") std::filesystem::create_symlink(place.history, theirs);
      if (kind == "directory") std::filesystem::create_directory(theirs);
      if (kind == "file of another user") {
        testing::WriteInPlace(theirs, HistoryText(EntryOf("applied", "{\"evil\": 1}", 9).line));
        if (::chown(theirs.c_str(), 34567, 34567) != 0) {
          std::filesystem::remove(theirs);
          continue;
        }
      }
      const auto done = FindDoneWindow(place.directory.path(), "job 7", kConfigPath, base::Sha256Hex(kSecondText));
      INFO(done.status().message());
      CHECK(done.ok());
      if (done.ok()) CHECK(done.value());
      CHECK(FindDoneWindow(place.directory.path(), "job 7", kConfigPath, base::Sha256Hex(kFirstText)).ok());
      const auto old = FindOldConfig(place.directory.path(), kConfigPath, 0, ::geteuid());
      INFO(old.status().message());
      CHECK(old.ok());
      if (old.ok()) CHECK(old.value().text == kFirstText);
      std::filesystem::remove_all(theirs);
    }
  }
}

TEST_CASE("a config that is kept is read from a regular file of ours alone") {
  const SharedBase place;
  const std::string kept = place.run + "/stepwatch_configs/" + base::Sha256Hex(kFirstText) + ".json";
  REQUIRE(std::filesystem::exists(kept));
  std::filesystem::remove(kept);
  REQUIRE(::mkfifo(kept.c_str(), 0600) == 0);
  CHECK_FALSE(KeptConfig(place.run, base::Sha256Hex(kFirstText)).ok());
  std::filesystem::remove(kept);
  std::filesystem::create_symlink("/dev/zero", kept);
  CHECK_FALSE(KeptConfig(place.run, base::Sha256Hex(kFirstText), ::geteuid()).ok());
}

TEST_CASE("a history that was replaced by a FIFO is not written to, and does not hold the writer") {
  const SharedBase place;
  std::filesystem::remove(place.history);
  REQUIRE(::mkfifo(place.history.c_str(), 0600) == 0);
  CHECK_FALSE(AppendHistory(place.run, {EntryOf("applied", kFirstText, 4)}).ok());
}

TEST_CASE("a line without an end costs the memory of a block, and the lines before and after it are read") {
  const SharedBase place;
  const size_t hole = size_t{300} << 20;
  REQUIRE(::truncate(place.history.c_str(), static_cast<off_t>(std::filesystem::file_size(place.history) + hole)) == 0);
  REQUIRE(AppendHistory(place.run, {EntryOf("not_begun", kSecondText, 5)}).ok());
  (void)PeakSinceLastCall();
  const size_t before = PeakSinceLastCall();
  const auto found = FindHistories(place.run);
  REQUIRE(found.ok());
  REQUIRE(found.value().size() == 1);
  CHECK(found.value()[0].history.lines.size() == 4);
  REQUIRE(found.value()[0].history.notes.size() == 1);
  CHECK(found.value()[0].history.notes[0].find("1 line is unreadable and left out") != std::string::npos);
  place.CheckThatOursAreFound();
  CheckPeak(before, hole / 2);
}

TEST_CASE("the last lines of a long history cost the memory of the lines that are asked for", "[slow]") {
  constexpr size_t kLines = testing::Rounds(size_t{100'000});
  const SharedBase place;
  {
    HistoryLine line = EntryOf("refused", kFirstText, 0).line;
    line.message = std::string(900, 'm');
    const std::string text = HistoryText(line);
    std::ofstream file(place.history, std::ios::app);
    for (size_t i = 0; i < kLines; ++i) file << text;
  }
  REQUIRE(AppendHistory(place.run, {EntryOf("applied", kSecondText, 4), EntryOf("finished", kSecondText, 5)}).ok());
  (void)PeakSinceLastCall();
  const size_t before = PeakSinceLastCall();
  HistoryQuestion question = OwnHistory();
  question.lines_max = 2;
  const auto found = FindHistories(place.run, question);
  REQUIRE(found.ok());
  REQUIRE(found.value()[0].history.lines.size() == 2);
  CHECK(found.value()[0].history.lines[1].outcome == "finished");
  CHECK(found.value()[0].history.lines_before == kLines + 3);
  CHECK(found.value()[0].history.notes.empty());
  place.CheckThatOursAreFound();
  CheckPeak(before, size_t{40} << 20);
  // Together they are longer than the limit, and a note reports it.
  question = OwnHistory();
  const auto all = FindHistories(place.run, question);
  REQUIRE(all.ok());
  CHECK(all.value()[0].history.lines.back().outcome == "finished");
  REQUIRE(all.value()[0].history.notes.size() == 1);
  CHECK(all.value()[0].history.notes[0].find("oldest lines are left out") != std::string::npos);
}

TEST_CASE("a reader of the histories of others gets a note for an entry that is none, and the rest") {
  const SharedBase place;
  std::filesystem::create_directory(place.directory / "Nov_pipe");
  REQUIRE(::mkfifo((place.directory / "Nov_pipe/stepwatch_history.jsonl").c_str(), 0600) == 0);
  const auto found = FindHistories(place.directory.path());
  REQUIRE(found.ok());
  REQUIRE(found.value().size() == 2);
  CHECK(found.value()[0].history.notes.size() == 1);
  CHECK(found.value()[0].history.notes[0].find("is a FIFO") != std::string::npos);
  CHECK(found.value()[1].history.lines.size() == 3);
  CHECK(FindHistories(place.directory / "Nov_pipe").status().code() == StatusCode::kInvalid);
}

}  // namespace
}  // namespace stepwatch::output
