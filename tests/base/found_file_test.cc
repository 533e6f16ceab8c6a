// Objects in the place of a file of ours, and the cost of a look at them.
#include "src/base/found_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::base {
namespace {

using stepwatch::testing::TemporaryDirectory;
using stepwatch::testing::WriteInPlace;

// Answers that files belong to somebody else.
class OthersFiles final : public FileSystemWrapper {
 public:
  int Lstat(const char* path, struct stat* about) override {
    return GiveAway(FileSystemWrapper::Lstat(path, about), about);
  }
  int Fstat(int fd, struct stat* about) override { return GiveAway(FileSystemWrapper::Fstat(fd, about), about); }

 private:
  static int GiveAway(int result, struct stat* about) {
    about->st_uid = ::geteuid() + 1;
    return result;
  }
};

TEST_CASE("a found file is read if it is a regular one, and ours where that is asked for") {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  WriteInPlace(path, "text");
  CHECK(ReadFound(path, 4, ::geteuid()).value() == "text");
  CHECK(ReadFound(path, 4, std::nullopt).value() == "text");
  OthersFiles others;
  CHECK(ReadFound(path, 4, ::geteuid(), others).status().code() == StatusCode::kInvalid);
  CHECK(ReadFound(path, 4, std::nullopt, others).value() == "text");
  CHECK(ReadFound(directory / "none", 4, ::geteuid()).status().code() == StatusCode::kNotFound);
}

TEST_CASE("a link is followed for readers of anybody's files") {
  const TemporaryDirectory directory;
  WriteInPlace(directory / "file", "text");
  std::filesystem::create_symlink("file", directory / "link");
  const Status refused = ReadFound(directory / "link", 4, ::geteuid()).status();
  CHECK(refused.code() == StatusCode::kInvalid);
  CHECK(refused.message().find("is a symbolic link") != std::string::npos);
  CHECK(ReadFound(directory / "link", 4, std::nullopt).value() == "text");
}

TEST_CASE("what is no file is refused without waiting for anybody, whosever files are read") {
  const TemporaryDirectory directory;
  const std::string path = directory / "found";
  std::string what;
  SECTION("a FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    what = "is a FIFO";
  }
  SECTION("a device without an end") {
    std::filesystem::create_symlink("/dev/zero", path);
    what = "is a character device";
  }
  SECTION("a directory") {
    std::filesystem::create_directory(path);
    what = "is a directory";
  }
  SECTION("a socket") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.data(), path.size());
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    what = "is a socket";
  }
  const Status status = ReadFound(path, 4, std::nullopt).status();
  CHECK(status.code() == StatusCode::kInvalid);
  CHECK(status.message().find(what) != std::string::npos);
  CHECK(ReadFound(path, 4, ::geteuid()).status().code() == StatusCode::kInvalid);
  CHECK(OpenFound(path, O_WRONLY | O_APPEND | O_CREAT, ::geteuid()).status().code() == StatusCode::kInvalid);
}

TEST_CASE("a missing file is made, and another that takes its place meanwhile is refused") {
  const TemporaryDirectory directory;
  REQUIRE(OpenFound(directory / "new", O_WRONLY | O_CREAT, ::geteuid(), FileSystem::Real(), 0600).ok());
  CHECK(std::filesystem::exists(directory / "new"));
  // A FIFO comes between the look and the opening.
  class Late final : public FileSystemWrapper {
   public:
    int Open(const char* path, int flags, mode_t mode) override {
      REQUIRE(::mkfifo(path, 0600) == 0);
      return FileSystemWrapper::Open(path, flags, mode);
    }
  } late;
  CHECK(OpenFound(directory / "late", O_RDWR | O_CREAT, ::geteuid(), late).status().code() == StatusCode::kInvalid);
}

TEST_CASE("nothing is read of a file that is too long") {
  const TemporaryDirectory directory;
  WriteInPlace(directory / "file", "");
  REQUIRE(::truncate((directory / "file").c_str(), off_t{1} << 40) == 0);
  class Unread final : public FileSystemWrapper {
   public:
    ssize_t Read(int, void*, size_t, off_t) override { return errno = EIO, -1; }
  } unread;
  CHECK(ReadFound(directory / "file", 1000, ::geteuid(), unread).status().code() == StatusCode::kExhausted);
}

TEST_CASE("lines come one after the other, whatever their lengths and wherever blocks end") {
  const TemporaryDirectory directory;
  const std::string long_line(200'000, 'x'), fits(100'000, 'y');
  WriteInPlace(directory / "file", "first\n\n" + long_line + "\n" + fits + "\nlast");
  const Result<UniqueFd> fd = OpenFound(directory / "file", O_RDONLY, ::geteuid());
  REQUIRE(fd.ok());
  FoundLines lines(fd.value().get(), 0, fits.size());
  struct Seen {
    std::string text;
    bool is_too_long, is_cut_off;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  for (auto line = lines.Next(); line.ok() && line.value(); line = lines.Next())
    seen.push_back({std::string(line.value()->text), line.value()->is_too_long, line.value()->is_cut_off});
  CHECK(
      seen ==
      std::vector<Seen>{
          {"first", false, false}, {"", false, false}, {"", true, false}, {fits, false, false}, {"last", false, true}});
}

TEST_CASE("a stream over a found file ends with it, and reports a read that failed") {
  const TemporaryDirectory directory;
  const std::string text(150'000, 'z');
  WriteInPlace(directory / "file", text);
  const Result<UniqueFd> fd = OpenFound(directory / "file", O_RDONLY, ::geteuid());
  REQUIRE(fd.ok());
  FoundStream bytes(fd.value().get());
  std::istream stream(&bytes);
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == text);
  CHECK(bytes.status().ok());
  FoundStream broken(-1);
  std::istream of_broken(&broken);
  CHECK(of_broken.get() == std::istream::traits_type::eof());
  CHECK_FALSE(broken.status().ok());
}

}  // namespace
}  // namespace stepwatch::base
