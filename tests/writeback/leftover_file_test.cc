// The temporary files of processes that were killed during a write-back.
#include "controller/writeback/leftover_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "controller/writeback/temporary_file.h"
#include "tests/catch.h"
#include "tests/rounds.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;

const char kBeside[] = ".config.json.stepwatch-";
constexpr std::chrono::milliseconds kAnyAge{0};

// A config beside which a process has been killed before its first call of this name.
struct KilledWrite : ConfigPlace {
  explicit KilledWrite(std::string_view call = "") : ConfigPlace(PlaceInMemory()) {
    if (!call.empty()) KillBefore(call);
  }
  void KillBefore(std::string_view call) const {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      HookedFiles files([&](std::string_view made) {
        if (made == call) ::kill(::getpid(), SIGKILL);
        return 0;
      });
      WriteBack(path, files);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
  }
  // The only name beside the config's.
  std::string Left() const {
    const std::vector<std::string> names = NamesIn(directory);
    REQUIRE(names.size() == 2);
    return directory / names[0];
  }
};

// The name of the same process in another container, or on another machine.
std::string Elsewhere(std::string path) {
  const size_t machine = path.find("-new-") + 5 + kTextIdSize + 1;
  for (size_t i = 0; i < 8; ++i) path[machine + i] = path[machine + i] == '0' ? '1' : '0';
  return path;
}

}  // namespace

TEST_CASE("a text of ours that a killed process has left is removed, whole or not, and whatever the config holds") {
  const std::string config = GENERATE(false, true) ? kEdit : kBase;
  const size_t cut_off = kOurs.size() - 5, left = GENERATE_COPY(kOurs.size(), size_t{0}, cut_off);
  KilledWrite stage(left == 0 ? "pwrite" : "renameat2");
  CHECK(Contents(stage.Left()) == (left == 0 ? "" : kOurs));
  fs::resize_file(stage.Left(), left);
  if (left != cut_off) testing::WriteInPlace(stage.path, config);
  CHECK(TidyLeftovers(stage.path).empty());
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("a possible edit is kept under the name of a conflict, and reported once") {
  for (const std::string& text : {kEdit, kOurs + "// mine\n", kEdit.substr(0, 9), std::string("\n")}) {
    INFO(text);
    KilledWrite stage("renameat2");
    testing::WriteInPlace(stage.Left(), text);
    const Findings findings = TidyLeftovers(stage.path);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].kind == DisplacedFile::Finding::Kind::kKept);
    CHECK(findings[0].message.find(stage.Left()) != std::string::npos);
    CHECK(findings[0].message.find("may hold a late edit") != std::string::npos);
    CHECK(stage.Conflicts() == std::vector<std::string>{text});
    CHECK(TidyLeftovers(stage.path).empty());
    CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).empty());
    CHECK(stage.Conflicts() == std::vector<std::string>{text});
    CHECK(Contents(stage.path) == kBase);
  }
}

TEST_CASE("the file of a living process is left alone") {
  KilledWrite stage;
  int looks = 0;
  HookedFiles files([&](std::string_view call) {
    if (call != "renameat2" || looks++ > 0) return 0;
    CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).empty());
    CHECK(Contents(stage.Left()) == kOurs);
    return 0;
  });
  CHECK(WriteBackToTheEnd(stage.path, files).outcome == WriteBackOutcome::kWritten);
  CHECK(looks > 0);
  CHECK(Contents(stage.path) == kOurs);
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("a file that somebody has open for writing is left alone") {
  KilledWrite stage("renameat2");
  base::UniqueFd writer(::open(stage.Left().c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(TidyLeftovers(stage.path).empty());
  CHECK(Contents(stage.Left()) == kOurs);
  writer.Reset();
  CHECK(TidyLeftovers(stage.path).empty());
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("the pid of another container, or of a name without its machine, proves nothing, and age does") {
  KilledWrite stage("renameat2");
  const std::string left = stage.Left();
  SECTION("another container") {
    fs::rename(left, Elsewhere(left));
    CHECK(TidyLeftovers(stage.path).empty());
    CHECK(Contents(stage.Left()) == kOurs);
    CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).empty());
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  SECTION("an earlier release") {
    fs::rename(left, stage.directory / ".config.json.stepwatch-4711-0");
    CHECK(TidyLeftovers(stage.path).empty());
    CHECK(Contents(stage.Left()) == kOurs);
    CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).empty());
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  SECTION("an earlier release, and a text of no record") {
    fs::rename(left, stage.directory / ".config.json.stepwatch-4711-0");
    testing::WriteInPlace(stage.path, kEdit);
    CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).size() == 1);
    CHECK(stage.Conflicts() == std::vector<std::string>{kOurs});
  }
}

TEST_CASE("a file that is not a temporary file of the config's owner is left alone") {
  KilledWrite stage("renameat2");
  const std::string left = stage.Left();
  MakeForeign(left, stage.directory);
  SECTION("another name") {
    for (const char* name : {"4711", "4711-x", "-4711-0", "new-0-0-0-0-0", "new", "newer", ""})
      testing::WriteInPlace(stage.directory / (kBeside + std::string(name)), kEdit);
    fs::remove(left);
  }
  const std::vector<std::string> before = NamesIn(stage.directory);
  CHECK(TidyLeftovers(stage.path, base::FileSystem::Real(), kAnyAge).empty());
  CHECK(NamesIn(stage.directory) == before);
  CHECK(TidyLeftovers("/nonexistent/config.json").empty());
}

TEST_CASE(
    "whichever system call fails while leftovers are tidied up, an edit stays there and is reported then or later") {
  int first = 0;
  for (const int error : {EIO, EACCES, ENOENT, EINTR}) {
    for (int k = first++ % Every(4);; k += Every(4)) {
      KilledWrite stage("renameat2");
      testing::WriteInPlace(stage.Left(), kEdit);
      stage.KillBefore("renameat2");  // and a text of ours beside it
      int calls_made = 0;
      HookedFiles files([&](std::string_view) { return calls_made++ == k ? error : 0; });
      size_t reports = 0;
      for (int process = 0; process < 2; ++process) reports += TidyLeftovers(stage.path, files).size();
      INFO("call " << k << " answers " << error);
      CHECK(reports >= 1);
      CHECK(Contents(stage.path) == kBase);
      CHECK(stage.Conflicts() == std::vector<std::string>{kEdit});
      CHECK(NamesIn(stage.directory).size() == 2);
      if (calls_made <= k) break;
    }
  }
}

// A displaced file may have lost its name when an editor saves into it: a copy is all that is left of the save when the
// process that made it dies.
TEST_CASE("a process that is killed while it copies a late edit leaves it for the next one") {
  bool was_killed = true;
  for (int k = 0; was_killed; ++k) {
    KilledWrite stage;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int calls_made = 0;
      bool counts = false, is_copied = false;
      HookedFiles files([&](std::string_view call) {
        if (counts && calls_made++ == k) {
          if (is_copied) testing::WriteInPlace(stage.directory / "copied", "");
          ::kill(::getpid(), SIGKILL);
        }
        is_copied |= counts && call == "pwrite";
        return 0;
      });
      WriteBackResult result = WriteBack(stage.path, files);
      const std::string displaced = stage.directory / NamesIn(stage.directory)[0];
      const base::UniqueFd editor(::open(displaced.c_str(), O_RDWR | O_CLOEXEC));
      ::unlink(displaced.c_str());
      (void)!::ftruncate(editor.get(), 0);
      (void)!::write(editor.get(), kEdit.data(), kEdit.size());
      DisplacedFiles found = Displaced(result);
      counts = true;
      const auto now = std::chrono::steady_clock::now();
      (void)found.Look(now);
      (void)found.Look(now + kDisplacedGrace);  // by then the editor is not waited for
      (void)found.LastLook(now + kDisplacedGrace);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    was_killed = WIFSIGNALED(status);
    INFO("killed before call " << k);
    const bool is_copied = fs::remove(stage.directory / "copied") || !was_killed;
    DisplacedFiles found = FindDisplaced(stage.path);
    LookToTheEnd(found, std::chrono::steady_clock::now());
    const Findings findings = TidyLeftovers(stage.path);
    const std::vector<std::string> kept = stage.Conflicts();
    const bool is_in_place = Contents(stage.path) == kEdit;
    if (is_copied) CHECK((is_in_place || kept == std::vector<std::string>{kEdit}));
    CHECK((is_in_place || Contents(stage.path) == kOurs));
    CHECK(findings.size() == kept.size());
    CHECK(NamesIn(stage.directory).size() == 1 + kept.size());
  }
}

}  // namespace stepwatch::writeback
