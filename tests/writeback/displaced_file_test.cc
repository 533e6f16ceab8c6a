#include "controller/writeback/displaced_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/rounds.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using Kind = DisplacedFile::Finding::Kind;
using Clock = DisplacedFile::Clock;

const std::string kOtherEdit = "{\"dynamic_on\": true, \"start_step\": 9}\n";

// An editor that has looked a name up and has not opened what it found.
class LateEditor {
 public:
  explicit LateEditor(const std::string& path) : found_(::open(path.c_str(), O_PATH | O_CLOEXEC)) {
    REQUIRE(found_.valid());
  }

  base::UniqueFd Open(int flags) const {
    const std::string way = "/proc/self/fd/" + std::to_string(found_.get());
    return base::UniqueFd(::open(way.c_str(), flags | O_CLOEXEC));
  }
  void Save(const std::string& bytes) const { Write(Open(O_WRONLY | O_TRUNC), bytes); }
  static void Write(const base::UniqueFd& fd, const std::string& bytes) {
    REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  base::UniqueFd found_;
};

// A config that has just been written back, and an editor that comes late.
struct LateEdit : ConfigPlace {
  explicit LateEdit(base::FileSystem& files = base::FileSystem::Real()) : ConfigPlace(PlaceInMemory()) {
    editor.emplace(path);
    WriteBackResult result = WriteBack(path, files);
    REQUIRE(result.outcome == WriteBackOutcome::kWritten);
    method = result.method;
    displaced = Displaced(result);
  }

  Findings Look() { return displaced.Look(now); }
  Findings LookAfter(std::chrono::milliseconds time) {
    now += time;
    return Look();
  }
  Findings LookToTheEnd() { return testing::LookToTheEnd(displaced, now); }

  std::optional<LateEditor> editor;
  std::string method;
  DisplacedFiles displaced;
  Clock::time_point now = Clock::now();
};

std::vector<Kind> KindsOf(const Findings& findings) {
  std::vector<Kind> kinds;
  for (const auto& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

const std::vector<Kind> kPutBack{Kind::kPutBack};
const std::vector<Kind> kKept{Kind::kKept};

}  // namespace

TEST_CASE("the displaced file stays for the grace and is removed then") {
  LateEdit stage;
  CHECK(stage.Look().empty());
  CHECK(NamesIn(stage.directory).size() == 2);
  CHECK(stage.LookAfter(kDisplacedGrace - std::chrono::milliseconds(1)).empty());
  CHECK(NamesIn(stage.directory).size() == 2);
  CHECK(stage.LookAfter(std::chrono::milliseconds(51)).empty());
  CHECK(NamesIn(stage.directory) == kConfigAlone);
  CHECK(!stage.displaced.look_at());
}

TEST_CASE("a save into the displaced file goes into the config with the next look") {
  LateEdit stage;
  stage.Look();
  stage.editor->Save(kEdit);
  const Findings findings = stage.LookAfter(std::chrono::milliseconds(50));
  REQUIRE(KindsOf(findings) == kPutBack);
  CHECK(findings[0].message.find("is in the config now") != std::string::npos);
  CHECK(Contents(stage.path) == kEdit);
  CHECK(stage.LookToTheEnd().empty());
  CHECK(Contents(stage.path) == kEdit);
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("what a late save displaces has a grace of its own") {
  LateEdit stage;
  const LateEditor of_ours(stage.path);
  stage.editor->Save(kEdit);
  CHECK(KindsOf(stage.Look()) == kPutBack);
  of_ours.Save(kOtherEdit);
  CHECK(KindsOf(stage.LookAfter(kDisplacedGrace - std::chrono::milliseconds(1))) == kPutBack);
  CHECK(Contents(stage.path) == kOtherEdit);
  CHECK(stage.Conflicts() == std::vector<std::string>{kEdit});
}

TEST_CASE("of a late save and an edit of the config the newer one stands and the other is kept") {
  for (const bool is_late_save_newer : {false, true}) {
    for (const bool by_rename : {false, true}) {
      INFO("the late save is the " << (is_late_save_newer ? "newer" : "older") << " one");
      LateEdit stage;
      const auto edit = [&] {
        by_rename ? WriteByRename(stage.path, kOtherEdit) : testing::WriteInPlace(stage.path, kOtherEdit);
      };
      // Long enough for file systems that count in ticks.
      const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
      if (is_late_save_newer) edit(), pause();
      stage.editor->Save(kEdit);
      if (!is_late_save_newer) pause(), edit();
      const Findings findings = stage.Look();
      CHECK(KindsOf(findings) == (is_late_save_newer ? kPutBack : kKept));
      CHECK(Contents(stage.path) == (is_late_save_newer ? kEdit : kOtherEdit));
      CHECK(stage.Conflicts() == std::vector<std::string>{is_late_save_newer ? kOtherEdit : kEdit});
      CHECK(findings.at(0).message.find(".config.json.stepwatch-conflict-") != std::string::npos);
      stage.LookToTheEnd();
      CHECK(NamesIn(stage.directory).size() == 2);
    }
  }
}

TEST_CASE("a writer that has the displaced file open extends the grace until it has written") {
  LateEdit stage;
  base::UniqueFd writer = stage.editor->Open(O_WRONLY);
  for (int i = 0; i < 10; ++i) CHECK(stage.LookAfter(kDisplacedGrace / 2).empty());
  CHECK(NamesIn(stage.directory).size() == 2);
  REQUIRE(::ftruncate(writer.get(), 0) == 0);
  LateEditor::Write(writer, kEdit);
  CHECK(stage.LookAfter(std::chrono::milliseconds(50)).empty());  // it may be about to write more
  writer.Reset();
  CHECK(KindsOf(stage.LookAfter(std::chrono::milliseconds(50))) == kPutBack);
  CHECK(Contents(stage.path) == kEdit);
}

TEST_CASE("a writer that goes on writing does so in the config file itself") {
  LateEdit stage;
  const base::UniqueFd writer = stage.editor->Open(O_WRONLY | O_TRUNC);
  LateEditor::Write(writer, kEdit);
  CHECK(stage.Look().empty());
  CHECK(KindsOf(stage.LookAfter(std::chrono::milliseconds(200))) == kPutBack);
  LateEditor::Write(writer, kOtherEdit);
  CHECK(Contents(stage.path).find(kOtherEdit) == 0);
}

TEST_CASE("a late save after a second write-back stands") {
  LateEdit stage;
  testing::WriteInPlace(stage.path, kBase);
  WriteBackResult second = WriteBack(stage.path);
  REQUIRE(second.outcome == WriteBackOutcome::kWritten);
  REQUIRE(second.displaced);
  stage.displaced.Add(std::move(*second.displaced));
  stage.displaced.AddOurs(second.sha256);
  CHECK(NamesIn(stage.directory).size() == 3);
  stage.editor->Save(kEdit);
  CHECK(KindsOf(stage.Look()) == kPutBack);
  CHECK(Contents(stage.path) == kEdit);
  CHECK(stage.LookToTheEnd().empty());
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("the last look removes the file, puts a late save in, or leaves a file that is being written") {
  LateEdit stage;
  stage.Look();
  SECTION("nobody came") {
    CHECK(stage.displaced.LastLook(stage.now).empty());
    CHECK(Contents(stage.path) == kOurs);
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  SECTION("a save") {
    stage.editor->Save(kEdit);
    CHECK(KindsOf(stage.displaced.LastLook(stage.now)) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  SECTION("an unfinished save") {
    const base::UniqueFd writer = stage.editor->Open(O_WRONLY | O_TRUNC);
    LateEditor::Write(writer, kEdit);
    CHECK(KindsOf(stage.displaced.LastLook(stage.now)) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
  }
  SECTION("a writer that has not written") {
    base::UniqueFd writer = stage.editor->Open(O_WRONLY);
    CHECK(stage.displaced.LastLook(stage.now).empty());
    REQUIRE(NamesIn(stage.directory).size() == 2);
    REQUIRE(::ftruncate(writer.get(), 0) == 0);
    LateEditor::Write(writer, kEdit);
    writer.Reset();
    DisplacedFiles found = FindDisplaced(stage.path);
    CHECK(KindsOf(testing::LookToTheEnd(found, stage.now)) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  CHECK(!stage.displaced.look_at());
}

TEST_CASE("the displaced file of a killed process is found, and removed or put in") {
  LateEdit stage;
  SECTION("nobody's edit") {
    DisplacedFiles found = FindDisplaced(stage.path);
    REQUIRE(found.look_at());
    CHECK(testing::LookToTheEnd(found, stage.now).empty());
    CHECK(Contents(stage.path) == kOurs);
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
  SECTION("an edit") {
    stage.editor->Save(kEdit);
    DisplacedFiles found = FindDisplaced(stage.path);
    CHECK(KindsOf(found.Look(stage.now)) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
    CHECK(testing::LookToTheEnd(found, stage.now).empty());
    CHECK(NamesIn(stage.directory) == kConfigAlone);
  }
}

TEST_CASE("only a regular file of the config's owner with one name is taken over") {
  LateEdit stage;
  const std::string name = NamesIn(stage.directory)[0];
  REQUIRE(name.find(".config.json.stepwatch-displaced-") == 0);
  const std::string left = stage.directory / name;
  stage.editor->Save(kEdit);
  MakeForeign(left, stage.directory);
  SECTION("another name") {
    fs::rename(left, stage.directory / ".config.json.stepwatch-displaced-1234");
  }
  DisplacedFiles found = FindDisplaced(stage.path);
  CHECK(!found.look_at());
  CHECK(Contents(stage.path) == kOurs);
}

TEST_CASE("without a config or a directory no displaced file is found, and none is lost") {
  CHECK(!FindDisplaced("/nonexistent/config.json").look_at());
  TemporaryDirectory directory;
  CHECK(!FindDisplaced(directory / "config.json").look_at());
  testing::WriteInPlace(directory / "config.json", kBase);
  HookedFiles unreadable([](std::string_view call) { return call == "opendir" ? EACCES : 0; });
  CHECK(!FindDisplaced(directory / "config.json", unreadable).look_at());
}

TEST_CASE("a file system without exchange keeps the displaced file as well") {
  const bool has_links = GENERATE(true, false);
  HookedFiles files([=](std::string_view call) {
    return call == "renameat2" ? EINVAL : call == "link" && !has_links ? EOPNOTSUPP : 0;
  });
  LateEdit stage(files);
  CHECK(stage.method == "rename");
  stage.Look();
  CHECK(NamesIn(stage.directory).size() == (has_links ? 2 : 1));
  SECTION("nobody comes") {
    CHECK(stage.LookToTheEnd().empty());
    CHECK(Contents(stage.path) == kOurs);
  }
  SECTION("a late save") {
    stage.editor->Save(kEdit);
    CHECK(KindsOf(stage.LookToTheEnd()) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
  }
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("a late save is copied if somebody removed the displaced file") {
  LateEdit stage;
  fs::remove(stage.directory / NamesIn(stage.directory)[0]);
  stage.editor->Save(kEdit);
  CHECK(KindsOf(stage.LookToTheEnd()) == kPutBack);
  CHECK(Contents(stage.path) == kEdit);
  CHECK(NamesIn(stage.directory) == kConfigAlone);
}

TEST_CASE("a directory that is removed or moved during the grace is left alone") {
  LateEdit stage;
  const std::string elsewhere = stage.directory.path() + "-moved";
  stage.Look();
  SECTION("removed") {
    fs::remove_all(stage.directory.path());
    CHECK(stage.LookToTheEnd().empty());
    CHECK(!fs::exists(stage.directory.path()));
  }
  SECTION("removed, and then a late save") {
    fs::remove_all(stage.directory.path());
    stage.editor->Save(kEdit);
    const Findings findings = stage.LookToTheEnd();
    CHECK(KindsOf(findings) == std::vector<Kind>{Kind::kStuck});
    CHECK(findings[0].message.find("No such file") != std::string::npos);
  }
  SECTION("moved") {
    fs::rename(stage.directory.path(), elsewhere);
    CHECK(stage.LookToTheEnd().empty());
    DisplacedFiles found = FindDisplaced(elsewhere + "/config.json");
    CHECK(testing::LookToTheEnd(found, stage.now).empty());
    CHECK(NamesIn(elsewhere) == kConfigAlone);
    fs::remove_all(elsewhere);
  }
}

TEST_CASE("a config that is removed during the grace stays removed unless somebody saves late") {
  LateEdit stage;
  fs::remove(stage.path);
  SECTION("nobody comes") {
    CHECK(stage.LookToTheEnd().empty());
    CHECK(NamesIn(stage.directory).empty());
  }
  SECTION("a late save") {
    stage.editor->Save(kEdit);
    CHECK(KindsOf(stage.LookToTheEnd()) == kPutBack);
    CHECK(Contents(stage.path) == kEdit);
  }
}

TEST_CASE("a file that cannot be removed or read is reported once and left") {
  for (const std::string call : {"unlink", "pread"}) {
    int error = 0;
    HookedFiles files([&](std::string_view name) { return name == call ? error : 0; });
    LateEdit stage(files);
    error = EIO;
    const Findings findings = stage.LookToTheEnd();
    REQUIRE(KindsOf(findings) == std::vector<Kind>{Kind::kStuck});
    CHECK(findings[0].message.find("Input/output error") != std::string::npos);
    CHECK(findings[0].message.find(".stepwatch-displaced-") != std::string::npos);
    CHECK(NamesIn(stage.directory).size() == 2);
  }
}

TEST_CASE("a late save that cannot be put in is kept where it is") {
  int error = 0;
  HookedFiles files([&](std::string_view call) { return call.substr(0, 6) == "rename" ? error : 0; });
  LateEdit stage(files);
  error = EROFS;
  stage.editor->Save(kEdit);
  const Findings findings = stage.LookToTheEnd();
  CHECK(KindsOf(findings) == kKept);
  CHECK(ContentsBeside(stage.directory.path(), ".config.json.stepwatch-") == std::vector<std::string>{kEdit});
  CHECK(Contents(stage.path) == kOurs);
}

TEST_CASE("a forked child removes nothing") {
  LateEdit stage;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    stage.displaced = DisplacedFiles();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(NamesIn(stage.directory).size() == 2);
  stage.editor->Save(kEdit);
  CHECK(KindsOf(stage.LookToTheEnd()) == kPutBack);
  CHECK(Contents(stage.path) == kEdit);
}

TEST_CASE("a child that is forked at any call of a write-back does not keep editors from saving afterwards") {
  for (const bool has_hard_link : {false, true}) {
    for (int k = has_hard_link ? Every(2) - 1 : 0;; k += Every(2)) {
      TemporaryDirectory directory{PlaceInMemory()};
      const std::string path = directory / "config.json";
      testing::WriteInPlace(path, kBase);
      if (has_hard_link) fs::create_hard_link(path, directory / "other");
      const LateEditor late(path);
      pid_t child = -1;
      int n = 0;
      HookedFiles files([&](std::string_view) {
        if (n++ == k) child = ::fork();
        while (child == 0) ::pause();
        return 0;
      });
      WriteBackResult result = WriteBack(path, files);
      if (child == -1) break;
      INFO((has_hard_link ? "hard link" : "plain") << ", forked before call " << k);
      CHECK(result.outcome == WriteBackOutcome::kWritten);
      // Refused as long as there is a lease.
      CHECK(base::UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)).valid());
      CHECK(late.Open(O_WRONLY | O_NONBLOCK).valid());
      const base::UniqueFd place(::open(directory.path().c_str(), O_RDONLY | O_CLOEXEC));
      CHECK(::flock(place.get(), LOCK_EX | LOCK_NB) == 0);
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
}

}  // namespace stepwatch::writeback
