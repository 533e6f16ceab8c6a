#include "src/output/run_directory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <cctype>
#include <cerrno>
#include <filesystem>

#include "tests/catch.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::output {
namespace {

using testing::Variable;

TEST_CASE("run ids are 32 hex digits and never the same") {
  const std::string one = RandomRunId();
  REQUIRE(one.size() == 32);
  for (char c : one) CHECK(std::isxdigit(static_cast<unsigned char>(c)) != 0);
  CHECK(one != RandomRunId());
}

TEST_CASE("the short id is the head of a hex id, and a hash of any other") {
  CHECK(ShortId("6170f1c3aabb") == "6170f1c3");
  CHECK(ShortId("6170f1c3") == "6170f1c3");
  for (const char* odd : {"", "6170f1c", "my-great-run", "6170f1cx99", "../../etc"}) {
    INFO(odd);
    const std::string id = ShortId(odd);
    CHECK(id.size() == 8);
    CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(id == ShortId(odd));
  }
  CHECK(ShortId("my-great-run") != ShortId("my-great-run2"));
}

TEST_CASE("a run directory is named by local time, rank and short id, with English months") {
  const Variable utc("TZ", "UTC0");
  CHECK(RunDirectoryName(1700594079, 0, "6170f1c3") == "Nov21_19-14-39-rank0-6170f1c3");
  CHECK(RunDirectoryName(0, 12345, "00000000") == "Jan01_00-00-00-rank12345-00000000");
  {
    const Variable shanghai("TZ", "CST-8");
    CHECK(RunDirectoryName(1700594079, 7, "6170f1c3") == "Nov22_03-14-39-rank7-6170f1c3");
  }
}

TEST_CASE("the output base is what was configured, else the environment, else a directory here") {
  const Variable set("MONITOR_OUTPUT_DIR", "/from/environment");
  CHECK(OutputBase("/configured") == "/configured");
  CHECK(OutputBase("") == "/from/environment");
  const Variable empty("MONITOR_OUTPUT_DIR", "");
  CHECK(OutputBase("") == "./monitor_output");
  ::unsetenv("MONITOR_OUTPUT_DIR");
  CHECK(OutputBase("") == "./monitor_output");
}

std::string Name(const std::optional<std::string>& path) {
  return path ? std::filesystem::path(*path).filename().string() : "none";
}

TEST_CASE("append_output finds the directory of the rank whose time lies in the range, ends included") {
  testing::TemporaryDirectory base;
  for (const char* name : {"Dec03_21-34-40-rank0-aaaaaaaa", "Dec03_21-34-40-rank10-aaaaaaaa",
                           "Dec04_08-00-00-rank0-bbbbbbbb", "Foo03_21-34-40-rank0-cccccccc", "notes"})
    std::filesystem::create_directory(base / name);
  testing::WriteInPlace(base / "Dec03_22-00-00-rank0-file", "not a directory");
  const auto find = [&](int rank, const char* from, const char* to) {
    return Name(FindRunDirectory(base.path(), rank, from, to));
  };
  CHECK(find(0, "Dec03_21-34-40", "Dec03_23-59-59") == "Dec03_21-34-40-rank0-aaaaaaaa");
  CHECK(find(0, "Dec03_00-00-00", "Dec03_21-34-40") == "Dec03_21-34-40-rank0-aaaaaaaa");
  CHECK(find(0, "Dec03_21-34-41", "Dec03_23-59-59") == "none");
  CHECK(find(10, "Dec01_00-00-00", "Dec31_00-00-00") == "Dec03_21-34-40-rank10-aaaaaaaa");
  CHECK(find(1, "Dec01_00-00-00", "Dec31_00-00-00") == "none");
  CHECK(find(0, "nonsense", "Dec31_00-00-00") == "none");
  CHECK(find(0, "", "") == "none");
}

TEST_CASE("of several directories in the range the one changed last is taken") {
  testing::TemporaryDirectory base;
  for (const char* name :
       {"May01_10-00-00-rank0-aaaaaaaa", "May02_10-00-00-rank0-bbbbbbbb", "May03_10-00-00-rank0-cccccccc"})
    std::filesystem::create_directory(base / name);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(base / "May01_10-00-00-rank0-aaaaaaaa", now - std::chrono::hours(2));
  std::filesystem::last_write_time(base / "May02_10-00-00-rank0-bbbbbbbb", now - std::chrono::hours(1));
  std::filesystem::last_write_time(base / "May03_10-00-00-rank0-cccccccc", now - std::chrono::hours(3));
  CHECK(Name(FindRunDirectory(base.path(), 0, "May01_00-00-00", "May31_00-00-00")) == "May02_10-00-00-rank0-bbbbbbbb");
}

TEST_CASE("a range that ends before it begins wraps around New Year") {
  testing::TemporaryDirectory base;
  std::filesystem::create_directory(base / "Dec31_23-00-00-rank0-aaaaaaaa");
  std::filesystem::create_directory(base / "Jun15_12-00-00-rank0-bbbbbbbb");
  CHECK(Name(FindRunDirectory(base.path(), 0, "Dec31_00-00-00", "Jan02_00-00-00")) == "Dec31_23-00-00-rank0-aaaaaaaa");
  std::filesystem::remove(base / "Dec31_23-00-00-rank0-aaaaaaaa");
  CHECK(Name(FindRunDirectory(base.path(), 0, "Dec31_00-00-00", "Jan02_00-00-00")) == "none");
  std::filesystem::create_directory(base / "Jan01_23-00-00-rank0-cccccccc");
  CHECK(Name(FindRunDirectory(base.path(), 0, "Dec31_00-00-00", "Jan02_00-00-00")) == "Jan01_23-00-00-rank0-cccccccc");
}

TEST_CASE("a base that is not there holds no directory") {
  CHECK_FALSE(FindRunDirectory("/nonexistent/base", 0, "May01_00-00-00", "May31_00-00-00"));
}

TEST_CASE("a base that breaks off while it is listed gives no directory") {
  struct Breaking final : base::FileSystemWrapper {
    int List(const char* path, std::vector<std::string>* names) override {
      FileSystemWrapper::List(path, names);
      return errno = EIO, -1;
    }
  } breaking;
  testing::TemporaryDirectory base;
  std::filesystem::create_directory(base / "May02_10-00-00-rank0-aaaaaaaa");
  CHECK(FindRunDirectory(base.path(), 0, "May01_00-00-00", "May31_00-00-00"));
  CHECK_FALSE(FindRunDirectory(base.path(), 0, "May01_00-00-00", "May31_00-00-00", breaking));
}

}  // namespace
}  // namespace stepwatch::output
