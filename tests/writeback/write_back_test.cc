#include "controller/writeback/write_back.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "tests/catch.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

namespace fs = std::filesystem;
using namespace testing;

bool Says(const WriteBackResult& result, const std::string& words) {
  return result.message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("only the token changes") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, kBase);
  WriteBackResult result = WriteBackDynamicOff(path, base::Sha256Hex(kBase));
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(result.message.empty());
  CHECK(Contents(path) == kOurs);
  CHECK(result.sha256 == base::Sha256Hex(kOurs));
  LookToTheEnd(result);
  CHECK(NamesIn(directory) == std::vector<std::string>{"config.json"});
}

TEST_CASE("mode, owner and attributes of the file are kept") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, kBase);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  if (::geteuid() == 0) REQUIRE(::chown(path.c_str(), 12345, 23456) == 0);
  const bool has_attributes = ::setxattr(path.c_str(), "user.comment", "mine", 4, 0) == 0;
  struct stat before = {}, after = {};
  REQUIRE(::stat(path.c_str(), &before) == 0);
  CHECK(WriteBack(path).outcome == WriteBackOutcome::kWritten);
  REQUIRE(::stat(path.c_str(), &after) == 0);
  CHECK(after.st_mode == before.st_mode);
  CHECK(after.st_uid == before.st_uid);
  CHECK(after.st_gid == before.st_gid);
  char value[8] = {};
  if (has_attributes) CHECK(::getxattr(path.c_str(), "user.comment", value, sizeof value) == 4);
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
  TemporaryDirectory directory;
  testing::WriteInPlace(directory / "config.json", kBase);
  fs::create_hard_link(directory / "config.json", directory / "other.json");
  const WriteBackResult result = WriteBack(directory / "config.json");
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(result.method == "in place");
  CHECK(Contents(directory / "other.json") == kOurs);
  CHECK(fs::hard_link_count(directory / "config.json") == 2);
}

TEST_CASE("other bytes than those that started the window are left alone") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, "{\"dynamic_on\": true, \"start_step\": 7}");
  const WriteBackResult result = WriteBack(path);
  CHECK(result.outcome == WriteBackOutcome::kEdited);
  CHECK(Says(result, "was edited meanwhile"));
  CHECK(result.method.empty());
  CHECK(Contents(path) == "{\"dynamic_on\": true, \"start_step\": 7}");
}

TEST_CASE("what cannot be written back says why, and nothing changes") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  SECTION("no file") {
    CHECK(Says(WriteBack(path), "cannot be found"));
    CHECK(NamesIn(directory).empty());
  }
  SECTION("a directory") {
    fs::create_directory(path);
    CHECK(Says(WriteBack(path), "is no regular file"));
  }
  SECTION("a FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(Says(WriteBack(path), "is no regular file"));
  }
  SECTION("no such key") {
    testing::WriteInPlace(path, "{}");
    const WriteBackResult result = WriteBackDynamicOff(path, base::Sha256Hex("{}"));
    CHECK(result.outcome == WriteBackOutcome::kImpossible);
    CHECK(Says(result, "dynamic_on"));
    CHECK(Contents(path) == "{}");
  }
  SECTION("a read-only file") {
    testing::WriteInPlace(path, kBase);
    HookedFiles files([](std::string_view call) { return call == "faccessat" ? EACCES : 0; });
    CHECK(Says(WriteBack(path, files), "is read-only: Permission denied"));
    CHECK(Contents(path) == kBase);
  }
}

TEST_CASE("a directory that takes no new file still has its config written in place") {
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
    TemporaryDirectory directory;
    testing::WriteInPlace(directory / "config.json", kBase);
    HookedFiles files([&](std::string_view call) { return call == row.call ? row.error : 0; });
    const WriteBackResult result = WriteBackToTheEnd(directory / "config.json", files);
    CHECK(result.outcome == WriteBackOutcome::kWritten);
    CHECK(result.method == row.method);
    CHECK(Contents(directory / "config.json") == kOurs);
    CHECK(NamesIn(directory) == std::vector<std::string>{"config.json"});
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

TEST_CASE("a writer that keeps the file open and writes at the very moment of ours is told of") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, kBase);
  const base::UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  int writes = 0;
  HookedFiles files([&](std::string_view call) {
    // The first write is that of the temporary file.
    if (call == "pwrite" && ++writes == 2) CHECK(::pwrite(writer.get(), "{ }", 3, 0) == 3);
    return 0;
  });
  const WriteBackResult result = WriteBackToTheEnd(path, files);
  CHECK(result.outcome == WriteBackOutcome::kEdited);
  CHECK(Says(result, "look at it"));
}

TEST_CASE("a full disk leaves the old text") {
  TemporaryDirectory directory;
  testing::WriteInPlace(directory / "config.json", kBase);
  HookedFiles files([](std::string_view call) { return call == "pwrite" || call == "fallocate" ? ENOSPC : 0; });
  const WriteBackResult result = WriteBack(directory / "config.json", files);
  CHECK(result.outcome == WriteBackOutcome::kImpossible);
  CHECK(Says(result, "No space left"));
  CHECK(Contents(directory / "config.json") == kBase);
  CHECK(NamesIn(directory) == std::vector<std::string>{"config.json"});
}

TEST_CASE("a program that keeps the file open for writing goes on with the same file") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::WriteInPlace(path, kBase);
  base::UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(writer.valid());
  const WriteBackResult result = WriteBackToTheEnd(path);
  CHECK(result.outcome == WriteBackOutcome::kWritten);
  CHECK(Contents(path) == kOurs);
  REQUIRE(::ftruncate(writer.get(), 0) == 0);
  REQUIRE(::write(writer.get(), "{}", 2) == 2);
  CHECK(Contents(path) == "{}");
  CHECK(NamesIn(directory) == std::vector<std::string>{"config.json"});
}

}  // namespace stepwatch::writeback
