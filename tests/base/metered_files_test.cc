// The meter knows what a run has on disk, and what would go beyond the limit is not written.
#include "src/base/metered_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::base {
namespace {

using testing::TemporaryDirectory;

struct Metered {
  explicit Metered(uint64_t bytes_max)
      : meter(bytes_max), rows(&meter, true, FileSystem::Real()), notes(&meter, false, FileSystem::Real()) {
    meter.OnLevel([this] {
      levels.push_back(meter.level());
      return can_be_reported;
    });
  }

  bool can_be_reported = true;
  std::vector<DiskMeter::Level> levels;
  DiskMeter meter;
  MeteredFiles rows;
  MeteredFiles notes;
  TemporaryDirectory directory;
};

Status AppendTo(const std::string& path, const std::string& text, FileSystem& files) {
  const Result<UniqueFd> fd = Open(path, O_WRONLY | O_CREAT | O_APPEND, 0644, files);
  return fd.ok() ? WriteAll(fd.value().get(), text, files) : fd.status();
}

TEST_CASE("bytes count as long as they are on disk") {
  Metered metered(1000);
  const std::string a = metered.directory / "a", b = metered.directory / "b";
  REQUIRE(AppendTo(a, std::string(100, 'x'), metered.rows).ok());
  REQUIRE(AppendTo(a, std::string(50, 'x'), metered.notes).ok());
  CHECK(metered.meter.used() == 150);
  const Result<UniqueFd> fd = Open(a, O_WRONLY, 0644, metered.rows);
  REQUIRE(metered.rows.Truncate(fd.value().get(), 120) == 0);
  CHECK(metered.meter.used() == 120);
  REQUIRE(metered.rows.Truncate(fd.value().get(), 200) == 0);  // longer: nothing was written
  CHECK(metered.meter.used() == 120);
  REQUIRE(AppendTo(b, std::string(30, 'x'), metered.rows).ok());
  REQUIRE(metered.rows.Rename(b.c_str(), a.c_str()) == 0);
  CHECK(metered.meter.used() == 30);
  REQUIRE(metered.notes.Unlink(a.c_str()) == 0);
  CHECK(metered.meter.used() == 0);
}

TEST_CASE("a second name keeps the bytes of a file") {
  Metered metered(1000);
  const std::string a = metered.directory / "a", b = metered.directory / "b";
  REQUIRE(AppendTo(a, "12345", metered.rows).ok());
  REQUIRE(metered.rows.Link(a.c_str(), b.c_str()) == 0);
  REQUIRE(metered.rows.Unlink(a.c_str()) == 0);
  CHECK(metered.meter.used() == 5);
  REQUIRE(metered.rows.Unlink(b.c_str()) == 0);
  CHECK(metered.meter.used() == 0);
}

TEST_CASE("what was there before the run gives no bytes back") {
  Metered metered(1000);
  const std::string path = metered.directory / "older";
  REQUIRE(AppendTo(path, std::string(500, 'x'), FileSystem::Real()).ok());
  REQUIRE(AppendTo(path, std::string(10, 'x'), metered.rows).ok());
  REQUIRE(metered.rows.Unlink(path.c_str()) == 0);
  CHECK(metered.meter.used() == 0);
}

TEST_CASE("rows beyond the limit fail as on a full disk and notes are still written") {
  Metered metered(100);
  const std::string path = metered.directory / "a";
  REQUIRE(AppendTo(path, std::string(100, 'x'), metered.rows).ok());
  const Status refused = AppendTo(path, "x", metered.rows);
  CHECK(refused.code() == StatusCode::kExhausted);
  CHECK(ReadFile(path, 1000).value().size() == 100);
  CHECK(metered.meter.used() == 100);
  CHECK(AppendTo(path, "note", metered.notes).ok());
  CHECK(metered.meter.used() == 104);
}

TEST_CASE("each level is reported once, and again if the report failed") {
  Metered metered(1000);
  const std::string path = metered.directory / "a";
  REQUIRE(AppendTo(path, std::string(890, 'x'), metered.rows).ok());
  CHECK(metered.levels.empty());
  metered.can_be_reported = false;
  REQUIRE(AppendTo(path, std::string(10, 'x'), metered.rows).ok());
  metered.can_be_reported = true;
  REQUIRE(AppendTo(path, std::string(10, 'x'), metered.rows).ok());
  REQUIRE(AppendTo(path, std::string(10, 'x'), metered.rows).ok());
  CHECK(metered.levels == std::vector{DiskMeter::Level::kNear, DiskMeter::Level::kNear});
  CHECK_FALSE(AppendTo(path, std::string(1000, 'x'), metered.rows).ok());
  CHECK(metered.levels.back() == DiskMeter::Level::kUsedUp);
  REQUIRE(metered.rows.Unlink(path.c_str()) == 0);
  CHECK(metered.meter.level() == DiskMeter::Level::kUsedUp);  // what has ended does not begin again
}

TEST_CASE("the limit counts as used up while the steps under way still fit") {
  Metered metered(1000);
  const std::string path = metered.directory / "a";
  for (int step = 0; step < 6; ++step) {
    REQUIRE(AppendTo(path, std::string(100, 'x'), metered.rows).ok());
    metered.meter.CountStep(100);
  }
  CHECK(metered.levels == std::vector{DiskMeter::Level::kNear});
  REQUIRE(AppendTo(path, std::string(100, 'x'), metered.rows).ok());
  CHECK(metered.levels == std::vector{DiskMeter::Level::kNear, DiskMeter::Level::kUsedUp});
  CHECK(AppendTo(path, std::string(300, 'x'), metered.rows).ok());
}

TEST_CASE("a write that fails or is short counts what it wrote") {
  struct Short final : FileSystemWrapper {
    ssize_t Write(int fd, const void* bytes, size_t count) override {
      if (count <= 1) return errno = ENOSPC, -1;
      return FileSystemWrapper::Write(fd, bytes, count / 2);
    }
  } shorter;
  Metered metered(1000);
  MeteredFiles files(&metered.meter, true, shorter);
  CHECK_FALSE(AppendTo(metered.directory / "a", std::string(8, 'x'), files).ok());
  CHECK(metered.meter.used() == 7);
}

}  // namespace
}  // namespace stepwatch::base
