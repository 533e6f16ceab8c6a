// Somebody saves at the very moment of our write-back. Whatever the order, the edit must be what the file holds at the
// end.
//
// STEPWATCH_RACE_ROUNDS sets the rounds of each mode (100), STEPWATCH_SEED the random offsets, STEPWATCH_RACE_DIR the
// file system.
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

enum class World { kPlain, kHardLink, kNoExchange };

struct Mode {
  const char* name;
  World world;
  Save save;
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
    const bool has_hard_link = mode_.world == World::kHardLink;
    if (has_hard_link && !fs::exists(directory_ / "other")) fs::create_hard_link(path, directory_ / "other");
    const std::string first = Text(round, "first"), last = Text(round, "last");
    const std::chrono::nanoseconds editor_waits(random_() % 60000), we_wait(random_() % 60000);
    const std::chrono::microseconds pause(random_() % 100 == 0 ? 100000 : random_() % 600);

    // Most saves are aimed at the calls around the exchange, which come after the temporary file was written; the
    // others at the whole of the write-back.
    const std::string_view aim = random_() % 8 == 0 ? "realpath" : has_hard_link ? "F_SETLEASE" : "fsync";
    std::atomic<bool> is_close{false}, is_editor_there{false}, is_editor_done{false};
    HookedFiles files([&](std::string_view call) {
      const int error = mode_.world == World::kNoExchange && call == "renameat2" ? EINVAL : 0;
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
    WriteBackResult result = WriteBack(path, files);
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
    CHECK(Contents(path) == last);
    CHECK(result.outcome != WriteBackOutcome::kImpossible);
    ++counts[result.outcome == WriteBackOutcome::kWritten ? "written, then edited" : "edited"];
    ++counts[result.method];
    if (Contents(path) != last) ++counts["LOST"];
    for (const std::string& name : NamesIn(directory_)) {
      if (name == "config.json" || name == "other") continue;
      ++counts["kept as conflict"];
      CHECK(name.find(".config.json.stepwatch-conflict-") == 0);
      CHECK((Contents(directory_ / name) == first || Contents(directory_ / name) == kOurs));
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

}  // namespace

TEST_CASE("an edit saved at the moment of our write-back is never lost", "[random]") {
  const int rounds = FromEnvironment("STEPWATCH_RACE_ROUNDS", 100);
  const auto seed = static_cast<unsigned>(test::RandomSeed());
  for (const Mode& mode :
       {Mode{"rename", World::kPlain, ByRename}, Mode{"in place", World::kPlain, InPlace},
        Mode{"two renames", World::kPlain, TwoRenames}, Mode{"two in place", World::kPlain, TwiceInPlace},
        Mode{"paused in open", World::kPlain, PausedInOpen}, Mode{"paused after open", World::kPlain, PausedAfterOpen},
        Mode{"in place, hard link", World::kHardLink, InPlace},
        Mode{"paused in open, hard link", World::kHardLink, PausedInOpen},
        Mode{"paused after open, hard link", World::kHardLink, PausedAfterOpen},
        Mode{"in place, no exchange", World::kNoExchange, InPlace},
        Mode{"paused in open, no exchange", World::kNoExchange, PausedInOpen}}) {
    INFO("repeat with STEPWATCH_SEED=" << seed << " STEPWATCH_RACE_ROUNDS=" << rounds);
    Race race(mode, seed);
    race.Run(rounds);
    CHECK(race.counts["LOST"] == 0);
    std::string summary;
    for (const auto& [what, count] : race.counts) summary += "  " + what + " " + std::to_string(count);
    if (std::getenv("STEPWATCH_RACE_ROUNDS") != nullptr) std::fprintf(stderr, "%-30s%s\n", mode.name, summary.c_str());
  }
}

}  // namespace stepwatch::writeback
