#include "src/sockets/unix_listener.h"

#include <cerrno>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::sockets {
namespace {

using testing::Has;

TEST_CASE("a path that is too long for a socket is refused with the length that it may have") {
  testing::TemporaryDirectory directory;
  const std::string deep = directory / std::string(100, 'x');
  std::filesystem::create_directory(deep);
  const Result<UnixListener> opened = UnixListener::Open(deep, 1, base::FileSystem::Real());
  REQUIRE_FALSE(opened.ok());
  CHECK(Has(opened.status().message(), "may have at most 107 bytes"));
  CHECK(testing::EntriesOf(deep) == 0);
}

// Cannot rename without replacing, as some network file systems.
class OldFiles final : public base::FileSystemWrapper {
 public:
  int RenameNew(const char*, const char*) override {
    errno = EINVAL;
    return -1;
  }
};

TEST_CASE("a file system without a rename that replaces nothing has a socket nevertheless") {
  testing::TemporaryDirectory directory;
  OldFiles files;
  auto first = UnixListener::Open(directory.path(), 7, files);
  auto second = UnixListener::Open(directory.path(), 7, files);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first.value().path() == directory / "7-1.sock");
  CHECK(second.value().path() == directory / "7-2.sock");
  CHECK(testing::EntriesOf(directory.path()) == 2);
  first.value().Close();
  second.value().Close();
  CHECK(testing::EntriesOf(directory.path()) == 0);
}

// Fails one call.
class FailingFiles final : public base::FileSystemWrapper {
 public:
  explicit FailingFiles(int failing) : failing_(failing) {}
  int ChangeMode(int fd, mode_t mode) override { return Fails() ? -1 : FileSystemWrapper::ChangeMode(fd, mode); }
  int Lstat(const char* path, struct stat* about) override {
    return Fails() ? -1 : FileSystemWrapper::Lstat(path, about);
  }
  int RenameNew(const char* from, const char* to) override {
    return Fails() ? -1 : FileSystemWrapper::RenameNew(from, to);
  }
  bool failed() const { return calls_ > failing_; }

 private:
  bool Fails() {
    errno = EIO;
    return calls_++ == failing_;
  }
  const int failing_;
  int calls_ = 0;
};

TEST_CASE("any failed call is an error that leaves the directory empty") {
  for (int failing = 0;; ++failing) {
    testing::TemporaryDirectory directory;
    FailingFiles files(failing);
    auto opened = UnixListener::Open(directory.path(), 7, files);
    if (!files.failed()) {
      CHECK(failing == 3);
      break;
    }
    REQUIRE_FALSE(opened.ok());
    CHECK(Has(opened.status().message(), "Input/output error"));
    CHECK(testing::EntriesOf(directory.path()) == 0);
  }
}

TEST_CASE("closing leaves a socket alone that has taken the place of this one") {
  testing::TemporaryDirectory directory;
  auto first = UnixListener::Open(directory.path(), 7, base::FileSystem::Real());
  REQUIRE(first.ok());
  std::filesystem::remove(first.value().path());
  CHECK_FALSE(first.value().IsInPlace());
  auto second = UnixListener::Open(directory.path(), 7, base::FileSystem::Real());
  REQUIRE(second.ok());
  CHECK(second.value().path() == first.value().path());
  first.value().Close();
  CHECK(second.value().IsInPlace());
}

TEST_CASE("a socket is its owner's to open, whatever the umask") {
  testing::TemporaryDirectory directory;
  const mode_t before = ::umask(0777);
  const auto listener = UnixListener::Open(directory.path(), ::getpid(), base::FileSystem::Real());
  ::umask(before);
  REQUIRE(listener.ok());
  struct stat about {};
  REQUIRE(::lstat(listener.value().path().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("names of sockets contain the process") {
  CHECK(PidOfSocketName("12-3.sock") == 12);
  CHECK(PidOfSocketName(".12-0123abcd") == 12);
  for (const char* name : {"12.sock", "-3.sock", "x-1.sock", "12-3.sock.bak", "12-3", ".", "", "99999999999-1.sock",
                           "12-.sock", "12-\x1b[31m.sock", "12-3-4.sock", "12-3x.sock"})
    CHECK(PidOfSocketName(name) == -1);
}

}  // namespace
}  // namespace stepwatch::sockets
