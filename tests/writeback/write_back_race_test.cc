// Somebody saves at the very moment of our write-back. In each order the file holds the edit at the end.
//
// STEPWATCH_RACE_ROUNDS sets the rounds of each mode (100; 12 under a sanitizer), STEPWATCH_SEED the random offsets,
// STEPWATCH_RACE_DIR the file system.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

fs::path Place() {
  const char* place = std::getenv("STEPWATCH_RACE_DIR");
  return place == nullptr ? PlaceInMemory() : fs::path(place);
}

void SpinFor(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// One save of an editor: `first` is what it writes before, if it writes twice; `pause` stops it for the time of the
// round.
struct SaveOrder {
  std::string path;
  std::string first;
  std::string last;
  std::function<void()> pause;
};

using Save = std::function<void(const SaveOrder&)>;

enum class RaceWorld { kPlain, kHardLink, kNoExchange };

struct Mode {
  const char* name;
  RaceWorld world;
  Save save;
  Change change = WriteBackChange();
};

// In one round both start together; one of them waits a random 0 to 60 us first. The write-back needs about as long
// before its exchange, so the save falls before, into and after it. An editor that pauses does so for up to 600 us,
// which outlasts the write-back, and in one round of a hundred for 100 ms.
class Race {
 public:
  Race(const Mode& mode, unsigned seed) : mode_(mode), random_(seed) {}

  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) Round(round);
  }

  std::map<std::string, int> counts;

 private:
  void Round(int round) {
    const std::string path = directory_ / "config.json";
    testing::WriteInPlace(path, kBase);
    const bool has_hard_link = mode_.world == RaceWorld::kHardLink;
    if (has_hard_link && !fs::exists(directory_ / "other")) fs::create_hard_link(path, directory_ / "other");
    const std::string first = Text(round, "first"), last = Text(round, "last");
    const std::chrono::nanoseconds editor_waits(random_() % 60000), we_wait(random_() % 60000);
    const std::chrono::microseconds pause(random_() % 100 == 0 ? 100000 : random_() % 600);

    // Most saves are aimed at the calls around the exchange, which come after the temporary file was written; the
    // others at the whole of the write-back.
    const std::string_view aim = random_() % 8 == 0 ? "realpath" : has_hard_link ? "F_SETLEASE" : "fsync";
    std::atomic<bool> is_close{false}, is_editor_there{false}, is_editor_done{false};
    HookedFiles files([&](std::string_view call) {
      const int error = mode_.world == RaceWorld::kNoExchange && call == "renameat2" ? EINVAL : 0;
      if (call != aim || is_close) return error;
      is_close = true;
      while (!is_editor_there) std::this_thread::yield();
      SpinFor(we_wait);
      return error;
    });
    std::thread editor([&] {
      while (!is_close) std::this_thread::yield();
      is_editor_there = true;
      SpinFor(editor_waits);
      mode_.save({path, first, last, [pause] { std::this_thread::sleep_for(pause); }});
      is_editor_done = true;
    });
    WriteBackResult result = mode_.change.make(path, files);
    DisplacedFiles displaced = Displaced(result);
    Findings findings;
    while (!is_editor_done) {
      for (auto& finding : displaced.Look(std::chrono::steady_clock::now())) findings.push_back(std::move(finding));
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    editor.join();
    for (auto& finding : LookToTheEnd(displaced, std::chrono::steady_clock::now()))
      findings.push_back(std::move(finding));
    for (const auto& finding : findings)
      ++counts[finding.kind == DisplacedFile::Finding::Kind::kPutBack ? "put back late" : "kept late"];
    Judge(round, path, first, last, result);
  }

  void Judge(int round, const std::string& path, const std::string& first, const std::string& last,
             const WriteBackResult& result) {
    INFO(mode_.name << ", round " << round << ": " << result.message);
    // A replacement of any text may have read the edit before it replaced it.
    const bool was_read = result.outcome == WriteBackOutcome::kWritten && result.found_sha256 == base::Sha256Hex(last);
    const std::string& expected = was_read ? mode_.change.ours : last;
    CHECK(Contents(path) == expected);
    CHECK(result.outcome != WriteBackOutcome::kImpossible);
    const bool is_written = result.outcome == WriteBackOutcome::kWritten;
    ++counts[was_read ? "edited, then written" : is_written ? "written, then edited" : "edited"];
    ++counts[result.method];
    if (Contents(path) != expected) ++counts["LOST"];
    for (const std::string& name : NamesIn(directory_)) {
      if (name == "config.json" || name == "other") continue;
      ++counts["kept as conflict"];
      CHECK(name.find(".config.json.stepwatch-conflict-") == 0);
      CHECK((Contents(directory_ / name) == first || Contents(directory_ / name) == mode_.change.ours));
      fs::remove(directory_ / name);
    }
  }

  std::string Text(int round, const char* which) {
    return "{\"dynamic_on\": true, \"note\": \"" + std::string(which) + " " + std::to_string(round) +
           std::string(random_() % 200, '.') + "\"}\n";
  }

  const Mode mode_;
  std::minstd_rand random_;
  TemporaryDirectory directory_{Place()};
};

void InTwoPieces(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes.substr(0, bytes.size() / 2) << std::flush << bytes.substr(bytes.size() / 2);
}

void ByRename(const SaveOrder& order) {
  WriteByRename(order.path, order.last);
}
void InPlace(const SaveOrder& order) {
  InTwoPieces(order.path, order.last);
}
void TwoRenames(const SaveOrder& order) {
  WriteByRename(order.path, order.first);
  WriteByRename(order.path, order.last);
}
void TwiceInPlace(const SaveOrder& order) {
  InTwoPieces(order.path, order.first);
  InTwoPieces(order.path, order.last);
}
// Stops inside open(2), between the lookup of the name and the opening of what it led to.
void PausedInOpen(const SaveOrder& order) {
  const base::UniqueFd found(::open(order.path.c_str(), O_PATH | O_CLOEXEC));
  order.pause();
  InTwoPieces("/proc/self/fd/" + std::to_string(found.get()), order.last);
}
// Stops between open(2) and the first write, the old bytes still in the file.
void PausedAfterOpen(const SaveOrder& order) {
  const base::UniqueFd fd(::open(order.path.c_str(), O_WRONLY | O_CLOEXEC));
  order.pause();
  if (::ftruncate(fd.get(), 0) != 0) return;
  const auto put = ::write(fd.get(), order.last.data(), order.last.size());
  CHECK(put == static_cast<ssize_t>(order.last.size()));
}
// Tries again if the file was edited meanwhile: by us.
void ByReplaceConfig(const SaveOrder& order) {
  for (;;) {
    WriteBackResult result = ReplaceConfig(order.path, "", order.last);
    LookToTheEnd(result);
    if (result.outcome == WriteBackOutcome::kWritten) return;
    INFO(result.message);
    CHECK(result.outcome == WriteBackOutcome::kEdited);
  }
}

void RunRaces(const std::vector<Mode>& modes) {
  const int rounds = FromEnvironment("STEPWATCH_RACE_ROUNDS", Rounds(100));
  const auto seed = static_cast<unsigned>(test::RandomSeed());
  for (const Mode& mode : modes) {
    INFO("repeat with STEPWATCH_SEED=" << seed << " STEPWATCH_RACE_ROUNDS=" << rounds);
    Race race(mode, seed);
    race.Run(rounds);
    CHECK(race.counts["LOST"] == 0);
    std::string summary;
    for (const auto& [what, count] : race.counts) summary += "  " + what + " " + std::to_string(count);
    if (std::getenv("STEPWATCH_RACE_ROUNDS") != nullptr) std::fprintf(stderr, "%-30s%s\n", mode.name, summary.c_str());
  }
}

}  // namespace

TEST_CASE("an edit saved at the moment of our write-back is never lost", "[random][slow]") {
  RunRaces({{"rename", RaceWorld::kPlain, ByRename},
            {"in place", RaceWorld::kPlain, InPlace},
            {"two renames", RaceWorld::kPlain, TwoRenames},
            {"two in place", RaceWorld::kPlain, TwiceInPlace},
            {"paused in open", RaceWorld::kPlain, PausedInOpen},
            {"paused after open", RaceWorld::kPlain, PausedAfterOpen},
            {"in place, hard link", RaceWorld::kHardLink, InPlace},
            {"paused in open, hard link", RaceWorld::kHardLink, PausedInOpen},
            {"paused after open, hard link", RaceWorld::kHardLink, PausedAfterOpen},
            {"in place, no exchange", RaceWorld::kNoExchange, InPlace},
            {"paused in open, no exchange", RaceWorld::kNoExchange, PausedInOpen}});
}

TEST_CASE("an edit saved at the moment at which the config is replaced is never lost", "[random][slow]") {
  const Change shorter = Changes()[1], longer = Changes()[2];
  const Change whatever_is_there = Replacement("whatever is there", longer.ours, "");
  RunRaces({{"replaced: rename", RaceWorld::kPlain, ByRename, shorter},
            {"replaced: in place", RaceWorld::kPlain, InPlace, longer},
            {"replaced: two renames", RaceWorld::kPlain, TwoRenames, longer},
            {"replaced: two in place", RaceWorld::kPlain, TwiceInPlace, shorter},
            {"replaced: paused in open", RaceWorld::kPlain, PausedInOpen, shorter},
            {"replaced: paused after open", RaceWorld::kPlain, PausedAfterOpen, longer},
            {"replaced: hard link, shorter", RaceWorld::kHardLink, InPlace, shorter},
            {"replaced: hard link, longer", RaceWorld::kHardLink, InPlace, longer},
            {"replaced: no exchange", RaceWorld::kNoExchange, InPlace, shorter},
            {"without a hash: rename", RaceWorld::kPlain, ByRename, whatever_is_there},
            {"without a hash: in place", RaceWorld::kPlain, PausedInOpen, whatever_is_there}});
}

// The editor is another process of ours, which has files to look after as well.
TEST_CASE("a config that is replaced at the moment of our write-back holds the new text, or its writer got an error",
          "[slow]") {
  RunRaces({{"ReplaceConfig against us", RaceWorld::kPlain, ByReplaceConfig},
            {"ReplaceConfig, hard link", RaceWorld::kHardLink, ByReplaceConfig},
            {"ReplaceConfig, no exchange", RaceWorld::kNoExchange, ByReplaceConfig}});
}

}  // namespace stepwatch::writeback
