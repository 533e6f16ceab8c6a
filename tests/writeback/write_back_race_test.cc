// Somebody saves at the very moment of our write-back. Whatever the order, the edit must be what the file holds at the
// end.
//
// STEPWATCH_RACE_ROUNDS sets the rounds (400), STEPWATCH_SEED the random offsets, STEPWATCH_RACE_DIR the file system.
#include <atomic>
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

using Save = std::function<void(const std::string& path, const std::string& first, const std::string& last)>;

struct Mode {
  const char* name;
  bool has_hard_link;
  Save save;
};

// In one round both start together; one of them waits a random 0 to 60 us first. The write-back needs about as long
// before its exchange, so the save falls before, into and after it.
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
    if (mode_.has_hard_link && !fs::exists(directory_ / "other")) fs::create_hard_link(path, directory_ / "other");
    const std::string first = Text(round, "first"), last = Text(round, "last");
    const std::chrono::nanoseconds editor_waits(random_() % 60000), we_wait(random_() % 60000);

    // Most saves are aimed at the calls around the exchange, which come after the temporary file was written; the
    // others at the whole of the write-back.
    const std::string_view aim = random_() % 8 == 0 ? "realpath" : mode_.has_hard_link ? "fcntl" : "fsync";
    std::atomic<bool> is_close{false}, is_editor_there{false};
    FileCalls calls;
    calls.fault = [&](std::string_view call) {
      if (call != aim || is_close) return 0;
      is_close = true;
      while (!is_editor_there) std::this_thread::yield();
      SpinFor(we_wait);
      return 0;
    };
    std::thread editor([&] {
      while (!is_close) std::this_thread::yield();
      is_editor_there = true;
      SpinFor(editor_waits);
      mode_.save(path, first, last);
    });
    const WriteBackResult result = WriteBack(path, calls);
    editor.join();
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

}  // namespace

TEST_CASE("an edit saved at the moment of our write-back is never lost", "[random]") {
  const Save by_rename = [](const std::string& path, const std::string&, const std::string& last) {
    WriteByRename(path, last);
  };
  const Save in_place = [](const std::string& path, const std::string&, const std::string& last) {
    InTwoPieces(path, last);
  };
  const Save two_renames = [](const std::string& path, const std::string& first, const std::string& last) {
    WriteByRename(path, first);
    WriteByRename(path, last);
  };
  const Save two_in_place = [](const std::string& path, const std::string& first, const std::string& last) {
    InTwoPieces(path, first);
    InTwoPieces(path, last);
  };
  const int rounds = FromEnvironment("STEPWATCH_RACE_ROUNDS", 400);
  const auto seed = static_cast<unsigned>(test::RandomSeed());
  for (const Mode& mode :
       {Mode{"rename", false, by_rename}, Mode{"in place", false, in_place}, Mode{"two renames", false, two_renames},
        Mode{"two in place", false, two_in_place}, Mode{"in place, hard link", true, in_place}}) {
    INFO("repeat with STEPWATCH_SEED=" << seed << " STEPWATCH_RACE_ROUNDS=" << rounds);
    Race race(mode, seed);
    race.Run(rounds);
    CHECK(race.counts["LOST"] == 0);
    std::string summary;
    for (const auto& [what, count] : race.counts) summary += "  " + what + " " + std::to_string(count);
    if (std::getenv("STEPWATCH_RACE_ROUNDS") != nullptr) std::fprintf(stderr, "%-20s%s\n", mode.name, summary.c_str());
  }
}

}  // namespace stepwatch::writeback
