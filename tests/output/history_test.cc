// stepwatch_history.jsonl as text, and its files: what was appended reads back, whatever cut the last line off.
#include "src/output/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/temporary_directory.h"

namespace stepwatch::output {
namespace {

using testing::Contents;
using testing::HookedFiles;
using testing::TemporaryDirectory;

const std::string kConfig = "{\"dynamic_on\": true}";

HistoryLine Applied(PlanId plan_id, const std::string& config = kConfig) {
  HistoryLine line;
  line.time = UtcText(1'700'000'000'123'000'000 + static_cast<int64_t>(plan_id) * 1'000'000);
  line.run_id = "run \"7\"";
  line.pid = 42;
  line.config_path = "/jobs/caf\xc3\xa9/config.json";
  line.plan_id = plan_id;
  line.outcome = "applied";
  line.sha256 = base::Sha256Hex(config);
  line.bytes = static_cast<int64_t>(config.size());
  line.owner_uid = 1000;
  line.modified = UtcText(0);
  line.step = 17;
  return line;
}

HistoryEntry Entry(PlanId plan_id, const std::string& config = kConfig) {
  return {Applied(plan_id, config), std::make_shared<const std::string>(config)};
}

std::string PathIn(const TemporaryDirectory& directory) {
  return directory / "run/stepwatch_history.jsonl";
}

std::vector<PlanId> PlansIn(const TemporaryDirectory& directory) {
  const auto found = FindHistories(directory / "run");
  REQUIRE(found.ok());
  std::vector<PlanId> plans;
  for (const HistoryLine& line : found.value().at(0).history.lines) plans.push_back(line.plan_id);
  return plans;
}

TEST_CASE("a line of the history is one line of JSON that reads back") {
  HistoryLine ended = Applied(3);
  ended.outcome = "finished";
  ended.collected = 5;
  ended.ledger = Ledger{10, 7, {1, 0, 2, 0}};
  HistoryLine refused = Applied(0);
  refused.outcome = "refused";
  refused.old_sha256 = base::Sha256Hex("before");
  refused.place = {"ops", 2, 10};
  refused.message = "found\n\"norm\"; accepted: a list";
  refused.job_id = "slurm \"12\"";
  refused.is_volatile = true;
  const std::string text = HistoryText(ended) + HistoryText(refused);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  const auto read = ReadHistory(text);
  REQUIRE(read.ok());
  REQUIRE(read.value().lines.size() == 2);
  CHECK(read.value().notes.empty());
  CHECK(HistoryText(read.value().lines[0]) + HistoryText(read.value().lines[1]) == text);
  CHECK(read.value().lines[0].time == "2023-11-14T22:13:20.126Z");
  CHECK(read.value().lines[0].ledger->dropped[2] == 2);
  CHECK(read.value().lines[1].place.column == 10);
  CHECK(read.value().lines[1].message == refused.message);
  CHECK(read.value().lines[1].job_id == refused.job_id);
  CHECK(read.value().lines[1].is_volatile);
  CHECK_FALSE(read.value().lines[0].is_volatile);
}

TEST_CASE("a line holds the sender of bytes that came through the control socket, as far as it is known") {
  for (const EditPeer& peer : {EditPeer{1000, 7, "/usr/bin/a \"b\"", -1}, EditPeer{0, -1, "", 3}}) {
    HistoryLine line = Applied(1);
    line.peer = peer;
    const auto history = ReadHistory(HistoryText(line));
    REQUIRE(history.ok());
    CHECK(history.value().lines.at(0).peer == peer);
  }
  CHECK_FALSE(ReadHistory(HistoryText(Applied(1))).value().lines.at(0).peer);
  CHECK(PeerText({1000, 7, "/bin/a"}) == "uid 1000, pid 7, /bin/a");
  CHECK(PeerText({1000, -1, ""}) == "uid 1000");
}

TEST_CASE("a history that was cut off anywhere gives all whole lines, and a note if one was torn") {
  const std::string first = HistoryText(Applied(1)), text = first + HistoryText(Applied(2));
  for (size_t size = 0; size <= text.size(); ++size) {
    INFO(text.substr(0, size));
    const auto read = ReadHistory(text.substr(0, size));
    REQUIRE(read.ok());
    // A line without its line feed is whole.
    const size_t whole = size + 1 < first.size() ? 0 : size + 1 < text.size() ? 1 : 2;
    CHECK(read.value().lines.size() == whole);
    const bool is_torn = size > 0 && size + 1 < text.size() && size != first.size() && size + 1 != first.size();
    CHECK(read.value().notes.size() == (is_torn ? 1 : 0));
  }
}

TEST_CASE("lines of something else are left out with a note, and a text of nothing else is refused") {
  const auto read = ReadHistory("{}\n" + HistoryText(Applied(1)) + "\n[]\n");
  REQUIRE(read.ok());
  CHECK(read.value().lines.size() == 1);
  CHECK(read.value().notes == std::vector<std::string>{"2 lines are unreadable and left out"});
  CHECK(!ReadHistory("{\"plan\": 1}\n").ok());
  CHECK(ReadHistory("").ok());
}

TEST_CASE("a hash that is none is not read: it would name a file") {
  const auto read = ReadHistory("{\"version\": 1, \"outcome\": \"applied\", \"sha256\": \"../../etc/passwd\"}\n");
  REQUIRE(read.ok());
  CHECK(read.value().lines.at(0).sha256.empty());
  CHECK(!KeptConfig("/", "../../etc/passwd").ok());
}

TEST_CASE("each text is kept once, and found by its hash as long as nobody changed it") {
  TemporaryDirectory directory;
  const std::string run = directory / "run", other = "{\"dynamic_on\": false}";
  REQUIRE(AppendHistory(run, {Entry(1), Entry(2), Entry(3, other)}).ok());
  REQUIRE(AppendHistory(run, {Entry(4)}).ok());
  CHECK(PlansIn(directory) == std::vector<PlanId>{1, 2, 3, 4});
  CHECK(testing::EntriesOf(run + "/stepwatch_configs") == 2);
  const std::string sha256 = base::Sha256Hex(kConfig);
  CHECK(KeptConfig(run, sha256).value() == kConfig);
  CHECK(KeptConfig(run, base::Sha256Hex(other)).value() == other);
  testing::WriteInPlace(run + "/stepwatch_configs/" + sha256 + ".json", "{}");
  CHECK(KeptConfig(run, sha256).status().message().find("was changed") != std::string::npos);
  CHECK(KeptConfig(run, base::Sha256Hex("else")).status().code() == StatusCode::kNotFound);
}

TEST_CASE("after a line that was cut off anywhere the next one stands on its own") {
  const std::string whole = HistoryText(Applied(1));
  for (size_t size = 0; size <= whole.size(); size += 7) {
    TemporaryDirectory directory(testing::PlaceInMemory());
    std::filesystem::create_directory(directory / "run");
    testing::WriteInPlace(PathIn(directory), whole.substr(0, size));
    REQUIRE(AppendHistory(directory / "run", {Entry(2)}).ok());
    const auto plans = PlansIn(directory);
    CHECK(plans.back() == 2);
    CHECK(plans.size() == (size + 1 < whole.size() ? 1 : 2));
  }
}

TEST_CASE("whichever system call fails, none of the lines is in the history, and trying again adds each once") {
  for (int k = 0;; ++k) {
    TemporaryDirectory directory(testing::PlaceInMemory());
    REQUIRE(AppendHistory(directory / "run", {Entry(1)}).ok());
    int calls = 0;
    std::string failed;
    HookedFiles files([&](std::string_view call) {
      if (calls++ != k) return 0;
      failed = call;
      return ENOSPC;
    });
    const Status status = AppendHistory(directory / "run", {Entry(2, "{}"), Entry(3)}, files);
    INFO("call " << k << ": " << failed);
    if (calls <= k) {
      CHECK(status.ok());
      break;
    }
    if (!status.ok()) {
      CHECK(PlansIn(directory) == std::vector<PlanId>{1});
      CHECK(AppendHistory(directory / "run", {Entry(2, "{}"), Entry(3)}).ok());
    }
    CHECK(PlansIn(directory) == std::vector<PlanId>{1, 2, 3});
    CHECK(KeptConfig(directory / "run", base::Sha256Hex("{}")).value() == "{}");
    CHECK(testing::EntriesOf(directory / "run/stepwatch_configs") == 2);
  }
}

TEST_CASE("a disk that is full in mid-line leaves no piece of the line") {
  TemporaryDirectory directory;
  REQUIRE(AppendHistory(directory / "run", {Entry(1)}).ok());
  const std::string before = Contents(PathIn(directory));
  class HalfWritten : public base::FileSystemWrapper {
   public:
    ssize_t Write(int fd, const void* bytes, size_t count) override {
      if (is_full) return errno = ENOSPC, -1;
      is_full = true;
      return FileSystemWrapper::Write(fd, bytes, count / 2);
    }
    bool is_full = false;
  } files;
  CHECK(AppendHistory(directory / "run", {Entry(2)}, files).code() == StatusCode::kExhausted);
  CHECK(Contents(PathIn(directory)) == before);
}

TEST_CASE("histories are found by their file, by their run, and by the directory of all runs in the order of time") {
  TemporaryDirectory directory;
  REQUIRE(AppendHistory(directory / "base/Nov_b", {Entry(1)}).ok());
  REQUIRE(AppendHistory(directory / "base/Nov_a", {Entry(2)}).ok());
  std::filesystem::create_directory(directory / "base/csv_only");
  std::filesystem::create_directory(directory / "base/broken");
  testing::WriteInPlace(directory / "base/broken/stepwatch_history.jsonl", "{}\n");
  const auto all = FindHistories(directory / "base");
  REQUIRE(all.ok());
  REQUIRE(all.value().size() == 3);
  CHECK(all.value()[0].history.notes.size() == 1);
  CHECK(all.value()[1].directory == directory / "base/Nov_b");
  CHECK(all.value()[2].directory == directory / "base/Nov_a");
  CHECK(FindHistories(directory / "base/Nov_a/stepwatch_history.jsonl").value().size() == 1);
  CHECK(FindHistories(directory / "base/csv_only").status().code() == StatusCode::kNotFound);
  CHECK(FindHistories(directory / "base/broken").status().code() == StatusCode::kInvalid);
  CHECK(FindHistories(directory / "nowhere").status().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace stepwatch::output
