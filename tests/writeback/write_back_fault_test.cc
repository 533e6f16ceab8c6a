// Every system call of a write-back in turn: it fails, somebody saves just before it, or the process is killed there.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "controller/writeback/leftover_file.h"
#include "tests/catch.h"
#include "tests/rounds.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;

const char kTemporary[] = ".config.json.stepwatch-";
constexpr int kEditedAndDone = 3;  // exit code of a child

// The config's surroundings: an ordinary file, one with two names, a file system without exchange.
enum class World { kPlain, kHardLink, kNoExchange };

struct FaultyWrite : ConfigPlace {
  explicit FaultyWrite(World world_in, Change change_in = WriteBackChange())
      : ConfigPlace(PlaceInMemory()), change(std::move(change_in)), world(world_in) {
    if (world == World::kHardLink) fs::create_hard_link(path, directory / "other.json");
  }
  // The change and the grace after it. `at(n, call)` is asked before the n-th call, from 0 on.
  WriteBackResult Run(const std::function<int(int n, std::string_view call)>& at) {
    HookedFiles files([&, this](std::string_view call) {
      if ((call == "F_UNLCK" || call == "LOCK_UN") && !counts_ends) return 0;
      const int error = at(calls_made++, call);
      return error == 0 && world == World::kNoExchange && call == "renameat2" ? EINVAL : error;
    });
    WriteBackResult result = change.make(path, files);
    LookToTheEnd(result);
    return result;
  }
  // False: the run was over before the n-th call.
  bool WasMade(int n) const { return n < calls_made; }

  Change change;
  World world;
  // Counts the ends of leases and locks too. Not where `at` saves: an open just before a lease ends waits for that end.
  bool counts_ends = false;
  int calls_made = 0;
};

std::vector<World> Worlds() {
  return {World::kPlain, World::kHardLink, World::kNoExchange};
}

// Killed in place, the end of a longer text may be spaces.
std::string WithoutBlanks(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

// Ways to save, and what the file must hold at the end.
struct Editor {
  std::string name;
  std::function<void(const std::string& path)> save;
};

const std::string kSaved = "{\"dynamic_on\": true, \"start_step\": 12345, \"step_interval\": 2}\n";

std::vector<Editor> Editors() {
  return {{"rename", [](const std::string& path) { WriteByRename(path, kSaved); }},
          {"in place", [](const std::string& path) { testing::WriteInPlace(path, kSaved); }},
          {"two renames",
           [](const std::string& path) {
             WriteByRename(path, "{\"first\": 1}");
             WriteByRename(path, kSaved);
           }},
          {"in place, then rename",
           [](const std::string& path) {
             testing::WriteInPlace(path, "{\"first\": 1}");
             WriteByRename(path, kSaved);
           }},
          {"old file moved aside, new one made", [](const std::string& path) {
             fs::rename(path, path + "~");
             testing::WriteInPlace(path, kSaved);
             fs::remove(path + "~");
           }}};
}

}  // namespace

TEST_CASE("whichever system call fails, the file is the old or the new text and nothing else is left", "[slow]") {
  const Change change = GENERATE(from_range(Changes()));
  INFO(change.name);
  for (const World world : Worlds()) {
    int first = 0;
    for (const int error : {EINVAL, EBUSY, EROFS, ENOSPC, EIO, EACCES, EPERM, ENOSYS, EINTR}) {
      for (int k = first++ % Every(4);; k += Every(4)) {
        FaultyWrite stage(world, change);
        stage.counts_ends = true;
        std::string failed;
        const WriteBackResult result = stage.Run([&](int n, std::string_view call) {
          if (n == k) failed = call;
          return n == k ? error : 0;
        });
        if (!stage.WasMade(k)) break;
        INFO("world " << static_cast<int>(world) << ", call " << k << " (" << failed << ") answers " << error << ": "
                      << result.message);
        const bool is_written = result.outcome == WriteBackOutcome::kWritten;
        CHECK(Contents(stage.path) == (is_written ? change.ours : kBase));
        CHECK(is_written == result.message.empty());
        CHECK(result.outcome != WriteBackOutcome::kEdited);
        CHECK(ContentsBeside(stage.directory.path(), kTemporary).empty());
      }
    }
  }
}

TEST_CASE("leases that cannot be ended spoil neither the write-back nor a save after it") {
  for (const World world : Worlds()) {
    for (const Editor& editor : Editors()) {
      INFO("world " << static_cast<int>(world) << ", " << editor.name);
      FaultyWrite stage(world);
      int lease_ends = 0;
      HookedFiles files([&](std::string_view call) {
        if (call == "F_UNLCK") return ++lease_ends, EIO;
        return world == World::kNoExchange && call == "renameat2" ? EINVAL : 0;
      });
      WriteBackResult result = WriteBack(stage.path, files);
      CHECK(result.outcome == WriteBackOutcome::kWritten);
      CHECK(Contents(stage.path) == kOurs);
      CHECK(lease_ends > 0);
      editor.save(stage.path);
      LookToTheEnd(result);
      CHECK(Contents(stage.path) == kSaved);
      CHECK(ContentsBeside(stage.directory.path(), kTemporary).empty());
    }
  }
}

TEST_CASE("a save just before any system call stands") {
  const Change change = GENERATE(from_range(Changes()));
  INFO(change.name);
  for (const Editor& editor : Editors()) {
    for (int k = 0;; ++k) {
      FaultyWrite stage(World::kPlain, change);
      std::string before;
      const WriteBackResult result = stage.Run([&](int n, std::string_view call) {
        if (n == k) {
          before = call;
          editor.save(stage.path);
        }
        return 0;
      });
      if (!stage.WasMade(k)) break;
      INFO(editor.name << " before call " << k << " (" << before << "): " << result.message);
      CHECK(Contents(stage.path) == kSaved);
      CHECK(result.outcome != WriteBackOutcome::kImpossible);
      CHECK(ContentsBeside(stage.directory.path(), kTemporary).empty());
    }
  }
}

TEST_CASE(
    "of two saves before any two system calls the second stands and the first is not lost unless replaced by it") {
  const std::string first = "{\"first\": 1}";
  for (const bool in_place : {false, true}) {
    const auto save = [&](const std::string& path, const std::string& bytes) {
      in_place ? testing::WriteInPlace(path, bytes) : WriteByRename(path, bytes);
    };
    bool was_first = true;
    for (int k = 0; was_first; ++k) {
      for (int later = k + 1;; later += Every(3)) {
        FaultyWrite stage(World::kPlain);
        const WriteBackResult result = stage.Run([&](int n, std::string_view) {
          if (n == k) save(stage.path, first);
          if (n == later) save(stage.path, kSaved);
          return 0;
        });
        was_first = stage.WasMade(k);
        if (!stage.WasMade(later)) break;
        INFO((in_place ? "in place" : "rename") << " before calls " << k << " and " << later << ": " << result.message);
        CHECK(Contents(stage.path) == kSaved);
        for (const std::string& kept : ContentsBeside(stage.directory.path(), kTemporary)) CHECK(kept == first);
        CHECK(ContentsBeside(stage.directory.path(), kTemporary) == stage.Conflicts());
      }
    }
  }
}

TEST_CASE("a slow save that ends just before it is put back does not replace the save that followed it") {
  FaultyWrite stage(World::kPlain);
  const std::string first = "{\"first\": 1}";
  base::UniqueFd slow;
  int renames = 0;
  stage.Run([&](int, std::string_view call) {
    if (call != "renameat2") return 0;
    ++renames;
    if (renames == 2) {  // before the exchange
      slow = base::UniqueFd(::open(stage.path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
      CHECK(::write(slow.get(), first.data(), 3) == 3);
    } else if (renames == 3) {  // before it is put back
      CHECK(::write(slow.get(), first.data() + 3, first.size() - 3) == static_cast<ssize_t>(first.size() - 3));
      slow.Reset();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for file systems that count time in ticks
      testing::WriteInPlace(stage.path, kSaved);
    }
    return 0;
  });
  CHECK(renames > 3);
  CHECK(Contents(stage.path) == kSaved);
  CHECK(stage.Conflicts() == std::vector<std::string>{first});
}

TEST_CASE("a save and a failing system call together lose no bytes of the user", "[slow]") {
  for (const Editor& editor : Editors()) {
    for (const int error : {EINVAL, EIO, EACCES}) {
      bool was_saved = true;
      for (int k = 0; was_saved; ++k) {
        for (int failing = k;; failing += Every(5)) {
          FaultyWrite stage(World::kPlain);
          const WriteBackResult result = stage.Run([&](int n, std::string_view) {
            if (n == k) editor.save(stage.path);
            return n == failing ? error : 0;
          });
          was_saved = stage.WasMade(k);
          if (!stage.WasMade(failing)) break;
          INFO(editor.name << " before call " << k << ", call " << failing << " answers " << error << ": "
                           << result.message);
          std::vector<std::string> found = ContentsBeside(stage.directory.path(), kTemporary);
          found.push_back(Contents(stage.path));
          CHECK(std::count(found.begin(), found.end(), kSaved) == 1);
          CHECK((found.size() == 1 || !stage.Conflicts().empty()));
        }
      }
    }
  }
}

TEST_CASE("out of memory before any system call, the file is the old or the new text and an edit is found") {
  const Change change = GENERATE(from_range(Changes()));
  INFO(change.name);
  for (const World world : Worlds()) {
    bool was_made = true;
    for (int k = static_cast<int>(world) % Every(3); was_made; k += Every(3)) {
      was_made = false;
      for (const int edit_at : {-1, k / 2, k - 1}) {
        if (edit_at >= 0 && world != World::kPlain) continue;
        FaultyWrite stage(world, change);
        bool was_edited = false;
        try {
          stage.Run([&](int n, std::string_view) {
            if (n == edit_at) WriteByRename(stage.path, kSaved), was_edited = true;
            if (n == k) throw std::bad_alloc();
            return 0;
          });
        } catch (const std::bad_alloc&) {  // of a look
        }
        was_made |= stage.WasMade(k);
        INFO("world " << static_cast<int>(world) << ", thrown before call " << k << ", edit before call " << edit_at);
        const std::string left = Contents(stage.path);
        CHECK((left == kBase || WithoutBlanks(left) == WithoutBlanks(change.ours) || left == kSaved));
        DisplacedFiles found = FindDisplaced(stage.path);
        LookToTheEnd(found, std::chrono::steady_clock::now());
        CHECK(Contents(stage.path) == (was_edited ? kSaved : left));
        for (const std::string& text : ContentsBeside(stage.directory.path(), kTemporary))
          CHECK(change.ours.find(text) == 0);
      }
    }
  }
}

TEST_CASE("a file removed at any moment stays removed or comes back whole, and nothing is left beside it") {
  for (int k = 0;; ++k) {
    FaultyWrite stage(World::kPlain);
    stage.Run([&](int n, std::string_view) {
      if (n == k) fs::remove(stage.path);
      return 0;
    });
    if (!stage.WasMade(k)) break;
    INFO("removed before call " << k);
    CHECK(NamesIn(stage.directory).empty());
  }
}

TEST_CASE("killed before any system call, the file is the old or the new text and the next process finds an edit") {
  const Change change = GENERATE(from_range(Changes()));
  INFO(change.name);
  for (const World world : Worlds()) {
    bool was_any_killed = true;
    for (int k = static_cast<int>(world) % Every(4); was_any_killed; k += Every(4)) {
      was_any_killed = false;
      for (const int edit_at : {-1, k / 2, k - 1}) {
        if (edit_at >= 0 && world != World::kPlain) continue;
        FaultyWrite stage(world, change);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
          bool was_edited = false;
          stage.Run([&](int n, std::string_view) {
            if (n == edit_at) WriteByRename(stage.path, kSaved), was_edited = true;
            if (n == k) ::kill(::getpid(), SIGKILL);
            return 0;
          });
          ::_exit(was_edited ? kEditedAndDone : 0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        INFO("killed before call " << k << ", edit before call " << edit_at);
        const std::string left = Contents(stage.path);
        CHECK((left == kBase || WithoutBlanks(left) == WithoutBlanks(change.ours) || left == kSaved));
        was_any_killed |= WIFSIGNALED(status);
        const bool was_killed = WIFSIGNALED(status) && edit_at >= 0;
        const bool was_edited = was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == kEditedAndDone);
        DisplacedFiles found = FindDisplaced(stage.path);
        LookToTheEnd(found, std::chrono::steady_clock::now());
        CHECK(Contents(stage.path) == (was_edited ? kSaved : left));
        for (const std::string& text : ContentsBeside(stage.directory.path(), kTemporary))
          CHECK(change.ours.find(text) == 0);  // killed while that was being written
        CHECK(TidyLeftovers(stage.path).empty());
        CHECK(ContentsBeside(stage.directory.path(), kTemporary).empty());
      }
    }
  }
}

TEST_CASE("whichever system call fails while leftovers are taken over, a late edit is found then or later") {
  int first = 0;
  for (const int error : {EIO, EACCES, ENOENT, EINTR}) {
    for (int k = first++ % Every(4);; k += Every(4)) {
      FaultyWrite stage(World::kPlain);
      WriteBack(stage.path);
      testing::WriteInPlace(stage.directory / NamesIn(stage.directory).at(0), kSaved);
      int calls_made = 0;
      HookedFiles files([&](std::string_view) { return calls_made++ == k ? error : 0; });
      for (int process = 0; process < 2; ++process) {
        DisplacedFiles found = FindDisplaced(stage.path, files);
        LookToTheEnd(found, std::chrono::steady_clock::now());
      }
      INFO("call " << k << " answers " << error);
      CHECK(Contents(stage.path) == kSaved);
      // A file that could not be looked at is kept rather than removed.
      for (const std::string& text : ContentsBeside(stage.directory.path(), kTemporary))
        CHECK((text == kOurs || text == kSaved));
      CHECK(ContentsBeside(stage.directory.path(), kTemporary) == stage.Conflicts());
      if (calls_made <= k) break;
    }
  }
}

}  // namespace stepwatch::writeback
