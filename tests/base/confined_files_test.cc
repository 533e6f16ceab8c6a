// No path or link leads a write out of the root, with openat2 and without.
#include "src/base/confined_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/temporary_directory.h"

namespace stepwatch::base {
namespace {

using testing::TemporaryDirectory;

// A root with a directory beside it, in which nothing may ever appear.
class Confined {
 public:
  // The errno of openat2; 0: it does its work.
  explicit Confined(int openat2_fails_with)
      : below_([=](std::string_view call) { return call == "openat2" ? openat2_fails_with : 0; }) {
    REQUIRE(MakeDirectories(root()).ok());
    REQUIRE(MakeDirectories(outside()).ok());
    REQUIRE(ReplaceFile(outside() + "/theirs", "theirs").ok());
    auto files = ConfinedFiles::Open(root(), below_);
    REQUIRE(files.ok());
    files_ = std::move(files).value();
  }

  std::string root() const { return directory_ / "root"; }
  std::string outside() const { return directory_ / "outside"; }
  ConfinedFiles& files() { return *files_; }
  void Link(const std::string& target, const std::string& name) const {
    REQUIRE(::symlink(target.c_str(), (root() + "/" + name).c_str()) == 0);
  }
  int ErrorOfOpen(const std::string& path, int flags) {
    const int fd = files_->Open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    files_->Close(fd);
    return 0;
  }
  // No call that makes, changes, moves or removes something gets through at the path; the errno is that of each.
  void CheckNothingGetsThrough(const std::string& path, int error_number) {
    INFO(path);
    const std::string inside = root() + "/inside";
    REQUIRE(ReplaceFile(inside, "x").ok());
    struct stat about;
    std::vector<std::string> names;
    const auto check = [&](int result) {
      CHECK(result == -1);
      CHECK(errno == error_number);
    };
    CHECK(ErrorOfOpen(path, O_WRONLY | O_CREAT) == error_number);
    CHECK(ErrorOfOpen(path, O_WRONLY | O_CREAT | O_EXCL) == error_number);
    CHECK(ErrorOfOpen(path, O_RDONLY) == error_number);
    check(files_->Stat(path.c_str(), &about));
    check(files_->Lstat(path.c_str(), &about));
    check(files_->Unlink(path.c_str()));
    check(files_->MakeDirectory(path.c_str(), 0755));
    check(files_->RemoveDirectory(path.c_str()));
    check(files_->List(path.c_str(), &names));
    check(files_->Rename(inside.c_str(), path.c_str()));
    check(files_->RenameNew(inside.c_str(), path.c_str()));
    check(files_->Exchange(inside.c_str(), path.c_str()));
    check(files_->Rename(path.c_str(), inside.c_str()));
    check(files_->Link(inside.c_str(), path.c_str()));
    check(files_->Link(path.c_str(), (root() + "/second").c_str()));
    CHECK(ListDirectory(outside()).value() == std::vector<std::string>{"theirs"});
    CHECK(ReadFile(outside() + "/theirs", 100).value() == "theirs");
  }

 private:
  TemporaryDirectory directory_;
  testing::HookedFiles below_;
  std::unique_ptr<ConfinedFiles> files_;
};

// 0: openat2 works. Otherwise the errno of a kernel without it, of a container's filter, or of an odd kernel.
int OpenAt2Fault() {
  return GENERATE(0, ENOSYS, EPERM, EINVAL);
}

TEST_CASE("inside the root files are made, replaced, listed and removed as ever") {
  Confined confined(OpenAt2Fault());
  ConfinedFiles& files = confined.files();
  const std::string directory = confined.root() + "/a//b/./c";
  REQUIRE(MakeDirectories(directory, files).ok());
  REQUIRE(ReplaceFile(directory + "/x", "one", files).ok());
  REQUIRE(ReplaceFile(directory + "/x", "two", files).ok());
  CHECK(ReadFile(confined.root() + "/a/b/c/x", 100).value() == "two");
  CHECK(ListDirectory(directory, files).value() == std::vector<std::string>{"x"});
  CHECK(ListDirectory(confined.root(), files).value() == std::vector<std::string>{"a"});
  CHECK(files.Link((directory + "/x").c_str(), (directory + "/y").c_str()) == 0);
  CHECK(files.RenameNew((directory + "/x").c_str(), (directory + "/y").c_str()) == -1);
  CHECK(errno == EEXIST);
  CHECK(files.Unlink((directory + "/y").c_str()) == 0);
  RemoveTree(confined.root() + "/a", files);
  CHECK(testing::EntriesOf(confined.root()) == 0);
  CHECK(confined.ErrorOfOpen(confined.root() + "/none/x", O_WRONLY | O_CREAT) == ENOENT);
}

TEST_CASE("a path that leaves the root by its text reaches nothing") {
  Confined confined(OpenAt2Fault());
  confined.CheckNothingGetsThrough(confined.outside() + "/x", EXDEV);
  confined.CheckNothingGetsThrough(confined.root() + "/../outside/x", EXDEV);
  confined.CheckNothingGetsThrough(confined.root() + "/a/../../outside/x", EXDEV);
  confined.CheckNothingGetsThrough(confined.root() + "x", EXDEV);  // begins with the same letters
  confined.CheckNothingGetsThrough("/", EXDEV);
  confined.CheckNothingGetsThrough("relative", EXDEV);
}

TEST_CASE("a link at any part of a path reaches nothing") {
  Confined confined(OpenAt2Fault());
  REQUIRE(MakeDirectories(confined.root() + "/a/b").ok());
  confined.Link(confined.outside(), "first");
  confined.Link("../../outside", "a/middle");
  confined.Link(confined.root() + "/a", "a/b/inwards");  // links that stay inside are not followed either
  for (const char* link : {"first", "a/middle", "a/b/inwards"})
    confined.CheckNothingGetsThrough(confined.root() + "/" + link + "/x", ELOOP);
  confined.Link("/proc/self/cwd", "magic");
  confined.CheckNothingGetsThrough(confined.root() + "/magic/x", ELOOP);
}

TEST_CASE("a link in the last place is neither followed nor written through") {
  Confined confined(OpenAt2Fault());
  confined.Link(confined.outside() + "/theirs", "link");
  confined.Link(confined.outside() + "/new", "dangling");
  for (const char* name : {"link", "dangling"}) {
    const std::string path = confined.root() + "/" + name;
    struct stat about;
    CHECK(confined.ErrorOfOpen(path, O_WRONLY | O_CREAT) == ELOOP);
    CHECK(confined.ErrorOfOpen(path, O_WRONLY | O_TRUNC) == ELOOP);
    CHECK(confined.ErrorOfOpen(path, O_WRONLY | O_CREAT | O_EXCL) == EEXIST);
    CHECK(confined.files().Stat(path.c_str(), &about) == -1);
    CHECK(errno == ELOOP);
    REQUIRE(confined.files().Lstat(path.c_str(), &about) == 0);
    CHECK(S_ISLNK(about.st_mode));
    // A replaced or removed link is the link itself.
    REQUIRE(ReplaceFile(path, "ours", confined.files()).ok());
    CHECK(ReadFile(path, 100).value() == "ours");
  }
  CHECK(ListDirectory(confined.outside()).value() == std::vector<std::string>{"theirs"});
  CHECK(ReadFile(confined.outside() + "/theirs", 100).value() == "theirs");
}

TEST_CASE("a root that is moved away while it is used is still the root") {
  Confined confined(OpenAt2Fault());
  const std::string moved = confined.root() + "-moved";
  REQUIRE(::rename(confined.root().c_str(), moved.c_str()) == 0);
  REQUIRE(::symlink(confined.outside().c_str(), confined.root().c_str()) == 0);
  REQUIRE(ReplaceFile(confined.root() + "/x", "ours", confined.files()).ok());
  CHECK(ReadFile(moved + "/x", 100).value() == "ours");
  CHECK(ListDirectory(confined.outside()).value() == std::vector<std::string>{"theirs"});
}

TEST_CASE("a root that is reached by a link is known by both of its names") {
  const TemporaryDirectory directory;
  REQUIRE(MakeDirectories(directory / "real").ok());
  REQUIRE(::symlink((directory / "real").c_str(), (directory / "link").c_str()) == 0);
  const auto files = ConfinedFiles::Open(directory / "link");
  REQUIRE(files.ok());
  CHECK(files.value()->root() == directory / "link");
  CHECK(ReplaceFile(directory / "link/x", "1", *files.value()).ok());
  CHECK(ReplaceFile(directory / "real/y", "2", *files.value()).ok());
  CHECK(testing::EntriesOf(directory / "real") == 2);
}

TEST_CASE("a root that is not there is made, and one that is no directory is an error") {
  const TemporaryDirectory directory;
  CHECK(ConfinedFiles::Open(directory / "a/b").ok());
  CHECK(IsDirectory(directory / "a/b"));
  REQUIRE(ReplaceFile(directory / "file", "").ok());
  CHECK_FALSE(ConfinedFiles::Open(directory / "file").ok());
}

TEST_CASE("a place for output is judged before anything is written") {
  Confined confined(OpenAt2Fault());
  confined.Link(confined.outside(), "link");
  ConfinedFiles& files = confined.files();
  const auto why = [&](const std::string& path) { return files.Check(path).message(); };
  CHECK(files.Check(confined.root()).ok());
  CHECK(files.Check(confined.root() + "/to/be/made").ok());
  CHECK(why(confined.outside()) ==
        "the output directory " + confined.outside() + " is outside the output root " + confined.root());
  CHECK(why(confined.root() + "/../outside") == "the output directory " + confined.root() +
                                                    "/../outside contains \"..\", which may lead out of the output "
                                                    "root " +
                                                    confined.root());
  CHECK(why(confined.root() + "/link/to/be/made") ==
        "the output directory " + confined.root() +
            "/link/to/be/made goes through a symbolic link, which may lead out of the output root " + confined.root());
  CHECK(testing::EntriesOf(confined.root()) == 1);
}

TEST_CASE("what no writer needs is refused") {
  Confined confined(0);
  const std::string path = confined.root() + "/x";
  std::string resolved, pattern = path + "XXXXXX";
  char text[16];
  CHECK(confined.files().Access(path.c_str(), R_OK) == -1);
  CHECK(errno == EOPNOTSUPP);
  CHECK(confined.files().ReadLink(path.c_str(), text, sizeof text) == -1);
  CHECK(confined.files().RealPath(path.c_str(), &resolved) == -1);
  CHECK(confined.files().MakeUniqueDirectory(pattern.data()) == -1);
  CHECK(confined.files().AddWatch(-1, path.c_str(), 0) == -1);
}

}  // namespace
}  // namespace stepwatch::base
