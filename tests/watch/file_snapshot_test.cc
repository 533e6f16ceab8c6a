#include "controller/watch/file_snapshot.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/config/parse_config.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::watch {
namespace {

using testing::TemporaryDirectory;
using testing::WriteInPlace;

bool Says(const FileSnapshot& snapshot, const std::string& words) {
  return snapshot.error.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a look reads a file whole, with its hash") {
  TemporaryDirectory directory;
  const std::string bytes("{\"dynamic_on\": true}\0\xff", 22);
  WriteInPlace(directory / "config.json", bytes);
  const FileSnapshot snapshot = TakeSnapshot(directory / "config.json");
  REQUIRE(snapshot.kind == SnapshotKind::kBytes);
  CHECK(snapshot.bytes == bytes);
  CHECK(snapshot.sha256 == base::Sha256Hex(bytes));
  CHECK(snapshot.error.empty());
  CHECK(snapshot.stamp.size == static_cast<int64_t>(bytes.size()));
}

TEST_CASE("an empty file is bytes too") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "");
  const FileSnapshot snapshot = TakeSnapshot(directory / "config.json");
  CHECK(snapshot.kind == SnapshotKind::kBytes);
  CHECK(snapshot.sha256 == base::Sha256Hex(""));
}

TEST_CASE("a missing file, a missing directory and a dangling link are missing") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "file", "x");
  std::filesystem::create_symlink("nowhere", directory / "link");
  for (const char* name : {"config.json", "gone/config.json", "file/config.json", "link"}) {
    INFO(name);
    const FileSnapshot snapshot = TakeSnapshot(directory / name);
    CHECK(snapshot.kind == SnapshotKind::kMissing);
    CHECK(Says(snapshot, "is missing"));
    CHECK(Says(snapshot, name));
  }
}

TEST_CASE("what is not a regular file is unreadable, without waiting") {
  TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "directory");
  REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop", directory / "loop");
  CHECK(Says(TakeSnapshot(directory / "directory"), "is a directory"));
  CHECK(TakeSnapshot(directory / "directory").error_number == EISDIR);
  CHECK(Says(TakeSnapshot(directory / "fifo"), "is a FIFO"));
  CHECK(Says(TakeSnapshot("/dev/zero"), "is a character device"));
  CHECK(Says(TakeSnapshot(directory / "loop"), "symbolic links"));
  for (const std::string& path : {directory / "directory", directory / "fifo", directory / "loop"})
    CHECK(TakeSnapshot(path).kind == SnapshotKind::kUnreadable);
}

TEST_CASE("a socket is unreadable") {
  TemporaryDirectory directory;
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (directory / "s").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(Says(TakeSnapshot(directory / "s"), "is a socket"));
}

TEST_CASE("a file up to the size limit is read, one byte more is not") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", std::string(config::kConfigBytesMax, ' '));
  CHECK(TakeSnapshot(directory / "config.json").kind == SnapshotKind::kBytes);
  WriteInPlace(directory / "config.json", std::string(config::kConfigBytesMax + 1, ' '));
  const FileSnapshot snapshot = TakeSnapshot(directory / "config.json");
  CHECK(snapshot.kind == SnapshotKind::kUnreadable);
  CHECK(snapshot.error_number == EFBIG);
  CHECK(Says(snapshot, "1048577 bytes"));
  CHECK(Says(snapshot, "at most 1048576"));
  CHECK(snapshot.sha256.empty());
}

TEST_CASE("a huge sparse file costs nothing") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "x");
  std::filesystem::resize_file(directory / "config.json", uintmax_t{1} << 33);
  CHECK(TakeSnapshot(directory / "config.json").error_number == EFBIG);
}

TEST_CASE("a file without permission is unreadable") {
  if (::geteuid() == 0) return;  // root may read everything
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{}");
  REQUIRE(::chmod((directory / "config.json").c_str(), 0) == 0);
  const FileSnapshot snapshot = TakeSnapshot(directory / "config.json");
  CHECK(snapshot.kind == SnapshotKind::kUnreadable);
  CHECK(snapshot.error_number == EACCES);
}

TEST_CASE("a message shows a hostile path without control characters") {
  CHECK(Says(TakeSnapshot("/nowhere/\x1b[2J"), "/nowhere/\\x1b[2J is missing"));
}

TEST_CASE("equal bytes in another file have another stamp") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{}");
  const FileSnapshot before = TakeSnapshot(directory / "config.json");
  testing::WriteByRename(directory / "config.json", "{}");
  const FileSnapshot after = TakeSnapshot(directory / "config.json");
  CHECK(before.sha256 == after.sha256);
  CHECK(before.stamp != after.stamp);
}

}  // namespace stepwatch::watch
