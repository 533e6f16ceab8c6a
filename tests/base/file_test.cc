#include "src/base/file.h"

#include <fcntl.h>

#include <cerrno>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::base {
namespace {

using testing::TemporaryDirectory;

TEST_CASE("ReplaceFile creates, replaces whole and leaves nothing beside the file") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.json";
  REQUIRE(ReplaceFile(path, "one and more").ok());
  CHECK(ReadFile(path, 100).value() == "one and more");
  REQUIRE(ReplaceFile(path, "two").ok());
  CHECK(ReadFile(path, 100).value() == "two");
  REQUIRE(ReplaceFile(path, "").ok());
  CHECK(ReadFile(path, 100).value() == "");
  CHECK(testing::EntriesOf(directory.path()) == 1);
}

TEST_CASE("a reader that has the old file open keeps reading the old bytes") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x";
  REQUIRE(ReplaceFile(path, "old").ok());
  Result<UniqueFd> open = Open(path, O_RDONLY);
  REQUIRE(open.ok());
  REQUIRE(ReplaceFile(path, "new and longer").ok());
  CHECK(ReadAll(open.value().get(), 100).value() == "old");
}

TEST_CASE("ReplaceFile names the failed file and cleans up") {
  const TemporaryDirectory directory;
  CHECK(ReplaceFile(directory / "missing/x", "a").code() == StatusCode::kNotFound);
  REQUIRE(MakeDirectories(directory / "occupied").ok());
  const Status status = ReplaceFile(directory / "occupied", "a");
  CHECK_FALSE(status.ok());
  CHECK(status.message().find("occupied") != std::string::npos);
  CHECK(testing::EntriesOf(directory.path()) == 1);
}

TEST_CASE("reading stops at the limit") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x";
  const std::string bytes(50000, 'b');
  REQUIRE(ReplaceFile(path, bytes).ok());
  CHECK(ReadFile(path, 50000).value() == bytes);
  const Result<std::string> cut = ReadFile(path, 49999);
  CHECK(cut.status().code() == StatusCode::kExhausted);
  CHECK(cut.status().message().find("49999") != std::string::npos);
  CHECK(ReadFile(directory / "none", 10).status().code() == StatusCode::kNotFound);
  CHECK_FALSE(ReadFile(directory / "", 10).ok());  // a directory
}

TEST_CASE("reading starts at the beginning whatever the descriptor's position") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x";
  Result<UniqueFd> file = Open(path, O_RDWR | O_CREAT);
  REQUIRE(file.ok());
  REQUIRE(WriteAll(file.value().get(), "abc").ok());
  CHECK(ReadAll(file.value().get(), 10).value() == "abc");
  CHECK(ReadAll(file.value().get(), 10).value() == "abc");
}

TEST_CASE("writing to a full device is a Status") {
  Result<UniqueFd> full = Open("/dev/full", O_WRONLY);
  if (!full.ok()) return;  // not every container has it
  CHECK(WriteAll(full.value().get(), "a").code() == StatusCode::kExhausted);
}

TEST_CASE("system errors get the code by which callers decide") {
  CHECK(ErrnoStatus("cannot open", "/x", ENOENT).code() == StatusCode::kNotFound);
  CHECK(ErrnoStatus("cannot open", "/x", ENOSPC).code() == StatusCode::kExhausted);
  CHECK(ErrnoStatus("cannot open", "/x", EACCES).code() == StatusCode::kUnavailable);
  CHECK(ErrnoStatus("cannot open", "/x/y", EACCES).message() == "cannot open /x/y: Permission denied");
}

TEST_CASE("directories are made with their parents, again and again") {
  const TemporaryDirectory directory;
  CHECK(MakeDirectories(directory / "a/b/c").ok());
  CHECK(MakeDirectories(directory / "a/b/c").ok());
  REQUIRE(ReplaceFile(directory / "file", "").ok());
  CHECK_FALSE(MakeDirectories(directory / "file/below").ok());
}

TEST_CASE("paths are taken apart and joined") {
  CHECK(DirectoryOf("a/b") == "a");
  CHECK(DirectoryOf("b") == ".");
  CHECK(DirectoryOf("/b") == "/");
  CHECK(BaseName("a/b") == "b");
  CHECK(BaseName("b") == "b");
  CHECK(JoinPath("a", "b") == "a/b");
  CHECK(JoinPath("a/", "b") == "a/b");
  CHECK(JoinPath("", "b") == "b");
}

TEST_CASE("a UniqueFd closes what it holds, once") {
  Result<UniqueFd> opened = Open("/dev/null", O_RDONLY);
  REQUIRE(opened.ok());
  UniqueFd first = std::move(opened).value();
  const int raw = first.get();
  UniqueFd second = std::move(first);
  CHECK_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is the promise
  CHECK(second.get() == raw);
  CHECK(::fcntl(raw, F_GETFD) == FD_CLOEXEC);
  second.Reset();
  CHECK(::fcntl(raw, F_GETFD) == -1);
}

}  // namespace
}  // namespace stepwatch::base
