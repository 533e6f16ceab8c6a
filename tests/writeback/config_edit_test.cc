#include "controller/writeback/config_edit.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;

bool Reports(const WriteBackResult& result, const std::string& words) {
  return Has(result.message, words);
}

}  // namespace

TEST_CASE("mode, owner and attributes of the file are kept") {
  const ConfigPlace place;
  REQUIRE(::chmod(place.path.c_str(), 0640) == 0);
  if (::geteuid() == 0) REQUIRE(::chown(place.path.c_str(), 12345, 23456) == 0);
  const bool has_attributes = ::setxattr(place.path.c_str(), "user.comment", "mine", 4, 0) == 0;
  struct stat before = {}, after = {};
  REQUIRE(::stat(place.path.c_str(), &before) == 0);
  CHECK(WriteBack(place.path).outcome == WriteBackOutcome::kWritten);
  REQUIRE(::stat(place.path.c_str(), &after) == 0);
  CHECK(after.st_mode == before.st_mode);
  CHECK(after.st_uid == before.st_uid);
  CHECK(after.st_gid == before.st_gid);
  char value[8] = {};
  if (has_attributes) CHECK(::getxattr(place.path.c_str(), "user.comment", value, sizeof value) == 4);
}

TEST_CASE("links stay links: the file at their end is changed") {
  TemporaryDirectory directory;
  fs::create_directory(directory / "data");
  testing::WriteInPlace(directory / "data/real.json", kBase);
  fs::create_symlink("data", directory / "current");
  fs::create_symlink("current/real.json", directory / "config.json");
  CHECK(WriteBackToTheEnd(directory / "config.json").outcome == WriteBackOutcome::kWritten);
  CHECK(fs::is_symlink(directory / "config.json"));
  CHECK(fs::is_symlink(directory / "current"));
  CHECK(Contents(directory / "data/real.json") == kOurs);
  CHECK(NamesIn(directory / "data") == std::vector<std::string>{"real.json"});
}

TEST_CASE("a file with hard links is changed in place, under all its names") {
  const ConfigPlace place;
  fs::create_hard_link(place.path, place.directory / "other.json");
  const WriteBackResult result = WriteBack(place.path);
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(result.method == "in place");
  CHECK(Contents(place.directory / "other.json") == kOurs);
  CHECK(fs::hard_link_count(place.path) == 2);
}

TEST_CASE("other bytes than those that started the window are left alone") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, "{\"dynamic_on\": true, \"start_step\": 7}");
  const WriteBackResult result = WriteBack(path);
  CHECK(result.outcome == WriteBackOutcome::kEdited);
  CHECK(Reports(result, "was edited meanwhile"));
  CHECK(result.method.empty());
  CHECK(Contents(path) == "{\"dynamic_on\": true, \"start_step\": 7}");
}

TEST_CASE("a config that cannot be written back is reported with the reason, and stays") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  SECTION("no file") {
    CHECK(Reports(WriteBack(path), "cannot be found"));
    CHECK(NamesIn(directory).empty());
  }
  SECTION("a directory") {
    fs::create_directory(path);
    CHECK(Reports(WriteBack(path), "is not a regular file"));
  }
  SECTION("a FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(Reports(WriteBack(path), "is not a regular file"));
  }
  SECTION("no such key") {
    testing::WriteInPlace(path, "{}");
    const WriteBackResult result = SetDynamicOn(path, base::Sha256Hex("{}"), false);
    CHECK(result.outcome == WriteBackOutcome::kRefused);
    CHECK(Reports(result, "add \"dynamic_on\": false"));
    CHECK(Contents(path) == "{}");
  }
  SECTION("a read-only file") {
    testing::WriteInPlace(path, kBase);
    HookedFiles files([](std::string_view call) { return call == "faccessat" ? EACCES : 0; });
    CHECK(Reports(WriteBack(path, files), "is read-only: Permission denied"));
    CHECK(Contents(path) == kBase);
    CHECK(SetDynamicOn(path, "", true, files).outcome == WriteBackOutcome::kUnchanged);  // as it is already
  }
}

TEST_CASE("the config of a directory without room for a new file is written in place") {
  if (::geteuid() == 0) return;  // root may write everywhere
  TemporaryDirectory directory;
  fs::create_directory(directory / "d");
  testing::WriteInPlace(directory / "d/config.json", kBase);
  REQUIRE(::chmod((directory / "d").c_str(), 0555) == 0);
  const WriteBackResult result = WriteBack(directory / "d/config.json");
  REQUIRE(::chmod((directory / "d").c_str(), 0755) == 0);
  CHECK(result.method == "in place");
  CHECK(Contents(directory / "d/config.json") == kOurs);
}

TEST_CASE("each fallback is chosen by what the system answers") {
  struct Row {
    std::string call;
    int error;
    std::string method;
  };
  for (const Row& row :
       {Row{"renameat2", EINVAL, "rename"}, Row{"renameat2", ENOSYS, "rename"}, Row{"renameat2", EBUSY, "in place"},
        Row{"renameat2", EXDEV, "in place"}, Row{"fsync", ENOSPC, "in place"}, Row{"pwrite", 0, "exchange"},
        Row{"F_SETLEASE", EINVAL, "exchange"}, Row{"fchmod", EPERM, "in place"}}) {
    INFO(row.call << " answers " << row.error);
    const ConfigPlace place;
    HookedFiles files([&](std::string_view call) { return call == row.call ? row.error : 0; });
    const WriteBackResult result = WriteBackToTheEnd(place.path, files);
    CHECK(result.outcome == WriteBackOutcome::kWritten);
    CHECK(result.method == row.method);
    CHECK(Contents(place.path) == kOurs);
    CHECK(NamesIn(place.directory) == kConfigAlone);
  }
}

TEST_CASE("a config whose name leaves no room for a longer one is written in place") {
  TemporaryDirectory directory;
  const std::string name(230, 'c');
  testing::WriteInPlace(directory / name, kBase);
  const WriteBackResult result = WriteBackToTheEnd(directory / name);
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(result.method == "in place");
  CHECK(Contents(directory / name) == kOurs);
  CHECK(NamesIn(directory) == std::vector<std::string>{name});
}

TEST_CASE("a writer that keeps the file open and writes at the moment of ours is reported") {
  const ConfigPlace place;
  const base::UniqueFd writer(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC));
  int writes = 0;
  HookedFiles files([&](std::string_view call) {
    // The first write is that of the temporary file.
    if (call == "pwrite" && ++writes == 2) CHECK(::pwrite(writer.get(), "{ }", 3, 0) == 3);
    return 0;
  });
  const WriteBackResult result = WriteBackToTheEnd(place.path, files);
  CHECK(result.outcome == WriteBackOutcome::kEdited);
  CHECK(Reports(result, "check its content"));
}

TEST_CASE("a full disk leaves the old text") {
  const ConfigPlace place;
  HookedFiles files([](std::string_view call) { return call == "pwrite" || call == "fallocate" ? ENOSPC : 0; });
  const WriteBackResult result = WriteBack(place.path, files);
  CHECK(result.outcome == WriteBackOutcome::kImpossible);
  CHECK(Reports(result, "No space left"));
  CHECK(Contents(place.path) == kBase);
  CHECK(NamesIn(place.directory) == kConfigAlone);
}

TEST_CASE("a program that keeps the file open for writing goes on with the same file") {
  const ConfigPlace place;
  base::UniqueFd writer(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(writer.valid());
  const WriteBackResult result = WriteBackToTheEnd(place.path);
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(Contents(place.path) == kOurs);
  REQUIRE(::ftruncate(writer.get(), 0) == 0);
  REQUIRE(::write(writer.get(), "{}", 2) == 2);
  CHECK(Contents(place.path) == "{}");
  CHECK(NamesIn(place.directory) == kConfigAlone);
}

TEST_CASE("dynamic_on is made true and false without a hash, and only when it is not so already") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, kOurs);
  WriteBackResult on = SetDynamicOn(path, "", true);
  CHECK(on.outcome == WriteBackOutcome::kWritten);
  CHECK(on.found_sha256 == base::Sha256Hex(kOurs));
  CHECK(Contents(path) == kBase);
  LookToTheEnd(on);
  WriteBackResult again = SetDynamicOn(path, "", true);
  CHECK(again.outcome == WriteBackOutcome::kUnchanged);
  CHECK(Reports(again, "holds that text already"));
  CHECK(!again.displaced);
  CHECK(SetDynamicOn(path, base::Sha256Hex(kOurs), false).outcome == WriteBackOutcome::kEdited);
  CHECK(Contents(path) == kBase);
}

TEST_CASE("a config is replaced byte for byte, with mode and links kept") {
  for (const Change& change : Changes()) {
    for (const bool has_hard_link : {false, true}) {
      INFO(change.name << (has_hard_link ? ", hard link" : ""));
      const ConfigPlace place;
      REQUIRE(::chmod(place.path.c_str(), 0640) == 0);
      if (has_hard_link) fs::create_hard_link(place.path, place.directory / "other.json");
      WriteBackResult result = change.make(place.path, base::FileSystem::Real());
      CHECK(result.outcome == WriteBackOutcome::kWritten);
      CHECK(result.method == (has_hard_link ? "in place" : "exchange"));
      CHECK(result.sha256 == base::Sha256Hex(change.ours));
      LookToTheEnd(result);
      CHECK(Contents(place.path) == change.ours);
      CHECK(fs::status(place.path).permissions() == fs::perms(0640));
      CHECK(NamesIn(place.directory).size() == (has_hard_link ? 2 : 1));
    }
  }
}

TEST_CASE("a missing config is created whole, unless another process was faster or a hash was given") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  SECTION("with the mode of any new file") {
    const WriteBackResult result = ReplaceConfig(path, "", kOurs);
    CHECK(result.outcome == WriteBackOutcome::kWritten);
    CHECK(result.method == "created");
    CHECK(!result.displaced);
    CHECK(Contents(path) == kOurs);
    testing::WriteInPlace(directory / "any", "");
    CHECK(fs::status(path).permissions() == fs::status(directory / "any").permissions());
    CHECK(NamesIn(directory) == std::vector<std::string>{"any", "config.json"});
  }
  SECTION("somebody is faster, with and without a call that knows of it") {
    const bool knows = GENERATE(true, false);
    HookedFiles files([&](std::string_view call) {
      if (call != "renameat2") return 0;
      testing::WriteInPlace(path, kBase);
      return knows ? 0 : EINVAL;
    });
    CHECK(ReplaceConfig(path, "", kOurs, files).outcome == WriteBackOutcome::kEdited);
    CHECK(Contents(path) == kBase);
    CHECK(NamesIn(directory) == kConfigAlone);
  }
  SECTION("a hash of what it should hold") {
    CHECK(ReplaceConfig(path, base::Sha256Hex(kBase), kOurs).outcome == WriteBackOutcome::kEdited);
    CHECK(NamesIn(directory).empty());
  }
  SECTION("a link that leads nowhere, a directory that is not there") {
    fs::create_symlink("nowhere.json", path);
    CHECK(Reports(ReplaceConfig(path, "", kOurs), "is a dangling symbolic link"));
    CHECK(Reports(ReplaceConfig(directory / "no/config.json", "", kOurs),
                  "cannot be created: No such file or directory"));
    CHECK(SetDynamicOn(directory / "other.json", "", true).outcome == WriteBackOutcome::kImpossible);
    CHECK(NamesIn(directory) == kConfigAlone);
  }
}

TEST_CASE("a file that another writer keeps to itself for a moment is waited for") {
  const ConfigPlace place;
  int refusals = 3;
  HookedFiles files([&](std::string_view call) { return call == "open" && refusals-- > 0 ? EWOULDBLOCK : 0; });
  CHECK(WriteBackToTheEnd(place.path, files).outcome == WriteBackOutcome::kWritten);
  CHECK(Contents(place.path) == kOurs);
}

TEST_CASE("a text beyond the limit is refused, and so is a change where the text has no usable word") {
  const ConfigPlace place;
  const WriteBackResult result = ReplaceConfig(place.path, "", std::string((size_t{1} << 20) + 1, ' '));
  CHECK(result.outcome == WriteBackOutcome::kRefused);
  CHECK(Reports(result, "accepted: at most 1048576"));
  CHECK(Contents(place.path) == kBase);
  for (const std::string text : {"{}", "{\"dynamic_on\": 1}", "{\"dynamic_on\": true"}) {
    testing::WriteInPlace(place.path, text);
    CHECK(SetDynamicOn(place.path, "", true).outcome == WriteBackOutcome::kRefused);
    CHECK(Contents(place.path) == text);
  }
}

}  // namespace stepwatch::writeback
