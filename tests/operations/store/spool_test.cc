#include "operations/store/spool.h"

#include <sys/stat.h>
#include <unistd.h>

#include "operations/daemon/post.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::TemporaryDirectory;

class FullFiles : public base::FileSystemWrapper {
 public:
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    const size_t part = std::min(count, room);
    room -= part;
    return base::FileSystemWrapper::Write(fd, bytes, part);
  }
  size_t room = 1 << 20;
};

std::string TakeAll(Spool* spool) {
  std::string all;
  for (; !spool->empty(); spool->RemoveOldest()) all += spool->Oldest().value();
  return all;
}

TEST_CASE("what is spooled comes back in order, also in another process") {
  TemporaryDirectory directory;
  {
    Spool spool(directory / "s", 1 << 20);
    REQUIRE(spool.Open().ok());
    REQUIRE(spool.Append("1\n2\n").ok());
    REQUIRE(spool.Append("3\n").ok());
  }
  Spool spool(directory / "s", 1 << 20);
  REQUIRE(spool.Open().ok());
  CHECK(spool.bytes() == 6);
  REQUIRE(spool.Append("4\n").ok());
  CHECK(TakeAll(&spool) == "1\n2\n3\n4\n");
  CHECK(spool.bytes() == 0);
  CHECK(testing::EntriesOf(directory / "s") == 0);
}

TEST_CASE("a process goes on in a file of its own, since the last one may end in half a line") {
  TemporaryDirectory directory;
  ::mkdir((directory / "s").c_str(), 0700);
  testing::WriteInPlace(directory / "s/000000000007.jsonl", "1\nhal");
  testing::WriteInPlace(directory / "s/notes.txt", "not ours");
  Spool spool(directory / "s", 1 << 20);
  REQUIRE(spool.Open().ok());
  REQUIRE(spool.Append("2\n").ok());
  CHECK(spool.Oldest().value() == "1\nhal");
  spool.RemoveOldest();
  CHECK(spool.Oldest().value() == "2\n");
}

TEST_CASE("what others have put into a spool neither holds it nor is sent") {
  TemporaryDirectory directory;
  ::mkdir((directory / "s").c_str(), 0700);
  REQUIRE(::mkfifo((directory / "s/000000000007.jsonl").c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/zero", (directory / "s/000000000008.jsonl").c_str()) == 0);
  Spool spool(directory / "s", 1 << 20);
  REQUIRE(spool.Open().ok());
  CHECK(spool.empty());
  REQUIRE(spool.Append("1\n").ok());
  CHECK(TakeAll(&spool) == "1\n");
}

TEST_CASE("a spool is bounded: the oldest lines go, and are counted") {
  TemporaryDirectory directory;
  Spool spool(directory / "s", 3 * Spool::kFileBytesMax);
  REQUIRE(spool.Open().ok());
  const std::string megabyte = std::string(static_cast<size_t>(Spool::kFileBytesMax) - 1, 'x') + "\n";
  for (int i = 0; i < 10; ++i) REQUIRE(spool.Append(megabyte).ok());
  CHECK(spool.bytes() <= 3 * Spool::kFileBytesMax);
  CHECK(spool.bytes() + spool.bytes_dropped() == 10 * Spool::kFileBytesMax);
  CHECK(testing::EntriesOf(directory / "s") == 3);
}

TEST_CASE("on a full disk no half of a line is left") {
  TemporaryDirectory directory;
  FullFiles files;
  Spool spool(directory / "s", 1 << 20, files);
  REQUIRE(spool.Open().ok());
  REQUIRE(spool.Append("1\n").ok());
  files.room = 3;
  const Status full = spool.Append("22222\n");
  CHECK(full.code() == StatusCode::kExhausted);
  files.room = 100;
  REQUIRE(spool.Append("3\n").ok());
  CHECK(TakeAll(&spool) == "1\n3\n");
}

TEST_CASE("an upstream is a host and a port") {
  CHECK(ParseUpstream("http://h:81/").value().port == "81");
  CHECK(ParseUpstream("http://h").value().host == "h");
  CHECK(ParseUpstream("http://[::1]:9").value().host == "::1");
  CHECK(ParseUpstream("http://[::1]:9").value().port == "9");
  for (const char* bad : {"h:81", "https://h", "http://", "http://h/path"}) CHECK_FALSE(ParseUpstream(bad).ok());
}

}  // namespace
}  // namespace stepwatch::operations
