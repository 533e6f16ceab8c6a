// A test overrides one call of the file system, and whole-file functions keep their promises when that call fails.
#include "src/base/file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file.h"
#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/temporary_directory.h"

namespace stepwatch::base {
namespace {

using testing::TemporaryDirectory;

// Fails the call with number `at` among those that a ReplaceFile makes.
class FailingFiles final : public testing::HookedFiles {
 public:
  FailingFiles(int at, int error_number)
      : HookedFiles([=, this](std::string_view) { return count_++ == at ? error_number : 0; }), at_(at) {}
  bool fault_met() const { return count_ > at_; }

 private:
  const int at_;
  int count_ = 0;
};

TEST_CASE("a failed call of ReplaceFile leaves the old file and nothing beside it") {
  for (int at = 0; at < 4; ++at) {
    for (int error_number : {ENOSPC, EIO, EACCES, EDQUOT}) {
      const TemporaryDirectory directory;
      const std::string path = directory / "x.json";
      REQUIRE(ReplaceFile(path, "old").ok());
      FailingFiles files(at, error_number);
      const Status status = ReplaceFile(path, "new", files);
      INFO("call " << at << ", errno " << error_number << ": " << status.ToString());
      CHECK(files.fault_met());
      CHECK_FALSE(status.ok());
      CHECK(ReadFile(path, 100).value() == "old");
      CHECK(testing::EntriesOf(directory.path()) == 1);
    }
  }
}

TEST_CASE("an interrupted call of ReplaceFile is made again") {
  for (int at = 0; at < 3; ++at) {
    const TemporaryDirectory directory;
    FailingFiles files(at, EINTR);
    CHECK(ReplaceFile(directory / "x", "new", files).ok());
    CHECK(files.fault_met());
    CHECK(ReadFile(directory / "x", 100).value() == "new");
  }
}

TEST_CASE("a write that takes nothing is an error instead of an endless loop") {
  struct Full final : FileSystemWrapper {
    ssize_t Write(int, const void*, size_t) override { return 0; }
  } full;
  const TemporaryDirectory directory;
  CHECK_FALSE(ReplaceFile(directory / "x", "new", full).ok());
  CHECK(testing::EntriesOf(directory.path()) == 0);
}

TEST_CASE("a directory that another process makes at the same moment is no error") {
  struct Racing final : FileSystemWrapper {
    int MakeDirectory(const char* path, mode_t mode) override {
      FileSystemWrapper::MakeDirectory(path, mode);
      return FileSystemWrapper::MakeDirectory(path, mode);
    }
  } racing;
  const TemporaryDirectory directory;
  CHECK(MakeDirectories(directory / "a/b", racing).ok());
  CHECK(IsDirectory(directory / "a/b"));
}

TEST_CASE("a directory is listed in the order of names, without itself and its parent") {
  const TemporaryDirectory directory;
  for (const char* name : {"c", "a", ".b"}) REQUIRE(ReplaceFile(directory / name, "").ok());
  CHECK(ListDirectory(directory.path()).value() == std::vector<std::string>{".b", "a", "c"});
  CHECK(ListDirectory(directory / "none").status().code() == StatusCode::kNotFound);
}

TEST_CASE("a listing that breaks off is an error") {
  struct Breaking final : FileSystemWrapper {
    int List(const char* path, std::vector<std::string>* names) override {
      FileSystemWrapper::List(path, names);
      return errno = EIO, -1;
    }
  } breaking;
  const TemporaryDirectory directory;
  REQUIRE(ReplaceFile(directory / "a", "").ok());
  CHECK(ListDirectory(directory.path(), breaking).status().message() ==
        "cannot list the directory " + directory.path() + ": Input/output error");
}

TEST_CASE("removing a tree follows no link out of it") {
  const TemporaryDirectory directory;
  REQUIRE(MakeDirectories(directory / "tree/below").ok());
  REQUIRE(ReplaceFile(directory / "kept", "").ok());
  REQUIRE(ReplaceFile(directory / "tree/below/x", "").ok());
  REQUIRE(::symlink(directory.path().c_str(), (directory / "tree/up").c_str()) == 0);
  RemoveTree(directory / "tree");
  CHECK_FALSE(Exists(directory / "tree"));
  CHECK(Exists(directory / "kept"));
}

// Every call of the wrapper reaches the target: what it makes through the wrapper is there without it.
TEST_CASE("a wrapper that overrides nothing changes nothing") {
  const TemporaryDirectory directory;
  FileSystemWrapper files;
  const std::string a = directory / "a", b = directory / "b", c = directory / "c", below = directory / "d";
  const int fd = files.Open(a.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  REQUIRE(fd >= 0);
  CHECK(files.Write(fd, "hello", 5) == 5);
  CHECK(files.WriteAt(fd, "J", 1, 0) == 1);
  CHECK(files.Truncate(fd, 4) == 0);
  CHECK(files.Sync(fd) == 0);
  CHECK(files.ChangeMode(fd, 0600) == 0);
  CHECK(files.ChangeOwner(fd, ::geteuid(), ::getegid()) == 0);
  CHECK(files.ChangeOwnerAt(a.c_str(), ::geteuid(), ::getegid()) == 0);
  char bytes[8] = {};
  CHECK(files.Read(fd, bytes, sizeof bytes, 0) == 4);
  CHECK(std::string(bytes) == "Jell");
  struct stat about = {}, of_name = {};
  CHECK(files.Fstat(fd, &about) == 0);
  CHECK(files.Stat(a.c_str(), &of_name) == 0);
  CHECK(about.st_ino == of_name.st_ino);
  CHECK((about.st_mode & 0777) == 0600);
  CHECK(files.ChangeModeAt(a.c_str(), 0640) == 0);
  CHECK(files.Fstat(fd, &about) == 0);
  CHECK((about.st_mode & 0777) == 0640);
  CHECK(files.Close(fd) == 0);
  CHECK(::fcntl(fd, F_GETFD) == -1);

  CHECK(files.Link(a.c_str(), b.c_str()) == 0);
  CHECK(files.RenameNew(a.c_str(), b.c_str()) == -1);
  CHECK(errno == EEXIST);
  CHECK(files.Unlink(b.c_str()) == 0);
  CHECK(files.RenameNew(a.c_str(), b.c_str()) == 0);
  REQUIRE(::symlink(b.c_str(), c.c_str()) == 0);
  char text[256] = {};
  CHECK(files.ReadLink(c.c_str(), text, sizeof text) == static_cast<ssize_t>(b.size()));
  CHECK(files.Lstat(c.c_str(), &about) == 0);
  CHECK(S_ISLNK(about.st_mode));
  std::string resolved, here;
  CHECK(files.RealPath(c.c_str(), &resolved) == 0);
  CHECK(BaseName(resolved) == "b");
  CHECK(files.CurrentDirectory(&here) == 0);
  CHECK(here.front() == '/');
  CHECK(files.Access(b.c_str(), R_OK | W_OK) == 0);
  CHECK(files.Rename(b.c_str(), a.c_str()) == 0);

  CHECK(files.MakeDirectory(below.c_str(), 0755) == 0);
  std::string pattern = below + "/XXXXXX";
  CHECK(files.MakeUniqueDirectory(pattern.data()) == 0);
  std::vector<std::string> names;
  CHECK(files.List(below.c_str(), &names) == 0);
  CHECK(names == std::vector<std::string>{BaseName(pattern)});
  CHECK(files.RemoveDirectory(pattern.c_str()) == 0);
}

}  // namespace
}  // namespace stepwatch::base
