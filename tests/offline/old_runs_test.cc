// Old runs go whole, and nothing else goes: live runs, links, mounts, and what no run writes stay.
#include "src/offline/old_runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/temporary_directory.h"

namespace stepwatch::offline {
namespace {

using testing::TemporaryDirectory;
using testing::WriteInPlace;

constexpr std::time_t kDay = 24 * 3600;

class Base {
 public:
  // A directory of a rank; each of its files was changed so many days ago.
  std::string Make(const std::string& run_id, int rank, int days_ago, const base::ProcessIdentity& process = {}) {
    const std::string name =
        "Dec03_21-34-4" + std::to_string(rank) + "-rank" + std::to_string(rank) + "-" + run_id.substr(0, 8);
    const std::string path = directory_ / name;
    std::filesystem::create_directories(path + "/stepwatch_configs");
    WriteInPlace(path + "/manifest.json", R"({"format": 1, "stepwatch": "0.9", "run_id": ")" + run_id +
                                              R"(", "host": ")" + process.host + R"(", "boot_id": ")" +
                                              process.boot_id + R"(", "pid_namespace": ")" + process.pid_namespace +
                                              R"(", "pid": )" + std::to_string(process.pid) + R"(, "pid_started": )" +
                                              std::to_string(process.started) + "}");
    for (const char* file :
         {"actv_0-0.csv", "actv_0-0_p2.csv", "actv_0-0_s2.csv", "actv_0-0_s2_p3.csv", "grad_reduced_5-9_p3_2.csv",
          "stack_info.csv", "stepwatch_history.jsonl", "stepwatch-manifest-1.json", "stepwatch_configs/0123.json",
          "events.out.tfevents.1.host.2", ".stepwatch-left"})
      WriteInPlace(path + "/" + file, "0123456789");
    Age(path, days_ago);
    return name;
  }
  void Age(const std::string& path, int days_ago) const {
    const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days_ago);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (!entry.is_symlink()) std::filesystem::last_write_time(entry.path(), then);
    std::filesystem::last_write_time(path, then);
  }

  std::string operator/(const std::string& name) const { return directory_ / name; }
  const std::string& path() const { return directory_.path(); }
  bool Has(const std::string& name) const { return std::filesystem::exists(directory_ / name); }
  RunStore Open(base::FileSystem& files = base::FileSystem::Real()) const {
    Result<RunStore> store = RunStore::Open(directory_.path(), files);
    REQUIRE(store.ok());
    return std::move(store).value();
  }

 private:
  TemporaryDirectory directory_;
};

const std::string kA = "aaaaaaaa1111", kB = "bbbbbbbb2222", kC = "cccccccc3333";

StoredRuns ListIn(const Base& base) {
  RunStore store = base.Open();
  const Result<StoredRuns> found = store.List();
  REQUIRE(found.ok());
  return found.value();
}

TEST_CASE("the ranks of a run are found together, the oldest run first") {
  Base base;
  base.Make(kA, 0, 5);
  base.Make(kB, 0, 40);
  base.Make(kB, 1, 39);
  std::filesystem::create_directories(base / "anomaly_detected/rank0");
  std::filesystem::create_directories(base / "module_struct/rank0");
  const StoredRuns found = ListIn(base);
  REQUIRE(found.runs.size() == 2);
  CHECK(found.runs[0].run_id == kB);
  CHECK(found.runs[0].directories.size() == 2);
  CHECK(found.runs[0].bytes > 2 * 90);
  CHECK(found.runs[0].left_alone.empty());
  CHECK(std::time(nullptr) - found.runs[0].changed >= 39 * kDay - 5);
  CHECK(std::time(nullptr) - found.runs[0].changed < 40 * kDay);
  CHECK(found.strange.empty());
  CHECK(found.leftovers.empty());
}

TEST_CASE("a run is removed with all of its ranks and nothing else") {
  Base base;
  base.Make(kA, 0, 5);
  base.Make(kB, 0, 40);
  base.Make(kB, 1, 40);
  RunStore store = base.Open();
  const StoredRuns found = store.List().value();
  CHECK(store.Remove(found.runs[0]).ToString() == "ok");
  CHECK(testing::EntriesOf(base.path()) == 1);
  CHECK(base.Has("Dec03_21-34-40-rank0-aaaaaaaa/actv_0-0.csv"));
}

TEST_CASE("a run with anything in it that no run writes is left alone, with all of its ranks") {
  Base base;
  const TemporaryDirectory outside;
  WriteInPlace(outside / "theirs", "theirs");
  const std::string name = base.Make(kA, 1, 40);
  base.Make(kA, 0, 40);
  std::string found_there;
  SECTION("a file") {
    WriteInPlace(base / name + "/notes.txt", ""), found_there = "holds \"notes.txt\"";
  }
  SECTION("a directory") {
    std::filesystem::create_directory(base / name + "/plots"), found_there = "holds \"plots\"";
  }
  SECTION("a link to a file") {
    std::filesystem::create_symlink(outside / "theirs", base / name + "/actv_9-9.csv");
    found_there = "holds the symbolic link \"actv_9-9.csv\"";
  }
  SECTION("a link to a directory, with a name of ours") {
    std::filesystem::create_directory_symlink(outside.path(), base / name + "/stepwatch_more");
    found_there = "holds the symbolic link \"stepwatch_more\"";
  }
  SECTION("a link in a directory of ours") {
    std::filesystem::create_symlink(outside / "theirs", base / name + "/stepwatch_configs/9.json");
    found_there = "holds the symbolic link \"9.json\"";
  }
  SECTION("a FIFO") {
    REQUIRE(::mkfifo((base / name + "/actv_9-9.csv").c_str(), 0600) == 0);
    found_there = "holds \"actv_9-9.csv\"";
  }
  RunStore store = base.Open();
  const StoredRuns found = store.List().value();
  REQUIRE(found.runs.size() == 1);
  CHECK(found.runs[0].left_alone == name + " " + found_there + ", which no run writes");
  CHECK_FALSE(store.Remove(found.runs[0]).ok());
  CHECK(testing::EntriesOf(base.path()) == 2);
  CHECK(testing::EntriesOf(base / name) >= 10);
  CHECK(testing::Contents(outside / "theirs") == "theirs");
}

TEST_CASE("what only looks like a run is named and stays") {
  Base base;
  const TemporaryDirectory outside;
  std::filesystem::create_directory(base / "Dec03_21-34-40-rank0-aaaaaaaa");
  std::filesystem::create_directory_symlink(outside.path(), base / "Dec03_21-34-40-rank1-aaaaaaaa");
  WriteInPlace(base / "Dec03_21-34-40-rank2-aaaaaaaa", "");
  std::filesystem::create_directory(base / "Dec03_21-34-40-rank3-aaaaaaaa");
  WriteInPlace(base / "Dec03_21-34-40-rank3-aaaaaaaa/manifest.json", "{\"run_id\": \"theirs\"}");
  std::filesystem::create_directory(base / "notes");
  const StoredRuns found = ListIn(base);
  CHECK(found.runs.empty());
  std::map<std::string, std::string> why;
  for (const StrangeEntry& entry : found.strange) why[entry.name.substr(15, 5)] = entry.why;
  CHECK(why == std::map<std::string, std::string>{{"rank0", "has no manifest.json of Stepwatch"},
                                                  {"rank1", "is a symbolic link"},
                                                  {"rank2", "is not a directory"},
                                                  {"rank3", "has no manifest.json of Stepwatch"}});
}

// Results of stat for some names, as if another file system were mounted there.
struct Mounted final : base::FileSystemWrapper {
  explicit Mounted(std::string name) : mounted(std::move(name)) {}
  int StatAt(int directory, const char* name, struct stat* about) override {
    const int done = FileSystemWrapper::StatAt(directory, name, about);
    if (done == 0 && name == mounted) ++about->st_dev;
    return done;
  }
  const std::string mounted;
};

TEST_CASE("another file system in a run is not entered") {
  Base base;
  const std::string name = base.Make(kA, 0, 40);
  Mounted files("stepwatch_configs");
  RunStore store = base.Open(files);
  const StoredRuns found = store.List().value();
  REQUIRE(found.runs.size() == 1);
  CHECK(found.runs[0].left_alone == name + " another file system is mounted at \"stepwatch_configs\"");
  CHECK_FALSE(store.Remove(found.runs[0]).ok());
  CHECK(base.Has(name + "/stepwatch_configs/0123.json"));
}

// Shows a list of mounts of the test's.
struct ListedMounts final : base::FileSystemWrapper {
  int Open(const char* path, int flags, mode_t mode) override {
    return FileSystemWrapper::Open(std::string(path) == "/proc/self/mountinfo" ? list.c_str() : path, flags, mode);
  }
  std::string list;
};

TEST_CASE("a directory of the same file system that is mounted in a run is seen in the list of mounts") {
  Base base;
  const std::string name = base.Make(kA, 0, 40), other = base.Make(kB, 1, 40);
  const TemporaryDirectory outside;
  ListedMounts files;
  files.list = outside / "mountinfo";
  WriteInPlace(files.list, "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:1 /x " + base.path() + "/" + name +
                               "/stepwatch\\040here rw - ext4 /dev/sda1 rw\n");
  const StoredRuns found = base.Open(files).List().value();
  REQUIRE(found.runs.size() == 2);
  for (const StoredRun& run : found.runs) CHECK(run.left_alone.empty() == (run.run_id == kB));
}

TEST_CASE("a run that changes while it is judged is left alone") {
  Base base;
  base.Make(kA, 0, 40);
  const std::string name = base.Make(kA, 1, 40);
  RunStore store = base.Open();
  const StoredRuns found = store.List().value();
  WriteInPlace(base / name + "/actv_9-9.csv", "new");
  CHECK(store.Remove(found.runs.at(0)).message() == name + " has changed since it was listed; the run is left alone");
  CHECK(testing::EntriesOf(base.path()) == 2);
}

TEST_CASE("a removal that is interrupted anywhere is finished by the next one") {
  for (int at = 0;; ++at) {
    Base base;
    base.Make(kA, 0, 40);
    base.Make(kA, 1, 40);
    base.Make(kB, 0, 1);
    int calls = 0;
    // From there on nothing is renamed or removed any more, as if the process had been killed.
    testing::HookedFiles files(
        [&](std::string_view call) { return (call == "unlinkat" || call == "renameat2") && calls++ >= at ? EIO : 0; });
    RunStore store = base.Open(files);
    const StoredRuns found = store.List().value();
    const Status removed = store.Remove(found.runs.at(0));
    INFO("interrupted before call " << at);
    RunStore next = base.Open();
    const StoredRuns left = next.List().value();
    CHECK(left.strange.empty());
    for (const std::string& name : left.leftovers) CHECK(next.RemoveLeftover(name).ToString() == "ok");
    for (const StoredRun& run : left.runs)
      if (run.run_id == kA) CHECK(next.Remove(run).ToString() == "ok");
    CHECK(testing::EntriesOf(base.path()) == 1);
    if (removed.ok()) break;
  }
}

TEST_CASE("a run whose process runs here is live, and one whose process has ended is not") {
  Base base;
  base::ProcessIdentity dead = base::ThisProcess();
  ++dead.started;
  base.Make(kA, 0, 40, base::ThisProcess());
  base.Make(kB, 0, 0, dead);
  const StoredRuns found = ListIn(base);
  const std::time_t now = std::time(nullptr);
  REQUIRE(found.runs.size() == 2);
  CHECK(WhyLive(found.runs[0], {}, now) == "its process " + std::to_string(::getpid()) + " runs");
  CHECK(WhyLive(found.runs[1], {}, now).empty());
  CHECK(WhyLive(found.runs[1], {kB}, now) == "its control socket responds");
}

TEST_CASE("a run of another host is live for a day after its last change") {
  Base base;
  base::ProcessIdentity elsewhere = base::ThisProcess();
  elsewhere.host = "node-7";
  base.Make(kA, 0, 2, elsewhere);
  base.Make(kB, 0, 0, elsewhere);
  base.Make(kC, 0, 0);  // of a release that wrote no host
  const StoredRuns found = ListIn(base);
  std::map<std::string, std::string> why;
  for (const StoredRun& run : found.runs) why[run.run_id] = WhyLive(run, {}, std::time(nullptr));
  CHECK(why[kA].empty());
  CHECK(why[kB] == "it changed within the last day, and this machine cannot see whether it still runs (host node-7)");
  CHECK_FALSE(why[kC].empty());
}

TEST_CASE("age and size decide together, and what stays counts") {
  using Kind = RunVerdict::Kind;
  const auto run = [](std::time_t changed, uint64_t bytes, const char* left_alone = "") {
    StoredRun stored;
    stored.changed = changed;
    stored.bytes = bytes;
    stored.left_alone = left_alone;
    return stored;
  };
  const std::vector<StoredRun> runs = {run(100, 10), run(200, 20, "strange"), run(300, 30), run(400, 40), run(500, 50)};
  const std::vector<std::string> live = {"", "", "it runs", "", ""};
  const auto kinds = [&](const RetentionRule& rule) {
    std::vector<Kind> all;
    for (const RunVerdict& verdict : Judge(runs, live, rule)) all.push_back(verdict.kind);
    return all;
  };
  const Kind gone = Kind::kRemoved, kept = Kind::kKept, alone = Kind::kLeftAlone, alive = Kind::kLive;
  CHECK(kinds({1000, -1, -1}) == std::vector{kept, alone, alive, kept, kept});
  CHECK(kinds({1000, 550, -1}) == std::vector{gone, alone, alive, gone, kept});
  CHECK(kinds({1000, 900, -1}) == std::vector{kept, alone, alive, kept, kept});
  CHECK(kinds({1000, -1, 150}) == std::vector{kept, alone, alive, kept, kept});
  CHECK(kinds({1000, -1, 140}) == std::vector{gone, alone, alive, kept, kept});
  CHECK(kinds({1000, -1, 100}) == std::vector{gone, alone, alive, gone, kept});
  CHECK(kinds({1000, -1, 0}) == std::vector{gone, alone, alive, gone, gone});
  CHECK(kinds({1000, 899, 140}) == std::vector{gone, alone, alive, kept, kept});
}

TEST_CASE("a base that is not there is an error") {
  CHECK(RunStore::Open("/nowhere/at/all").status().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace stepwatch::offline
