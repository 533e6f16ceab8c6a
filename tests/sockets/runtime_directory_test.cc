#include "src/sockets/runtime_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::sockets {
namespace {

using testing::Has;

TEST_CASE("the directory that the environment names comes first") {
  const testing::Variable named("STEPWATCH_RUNTIME_DIR", "/shared/jobs//");
  CHECK(RuntimeDirectories(7) == std::vector<std::string>{"/shared/jobs", "/run/user/7/stepwatch", "/tmp/stepwatch-7"});
  const testing::Variable none("STEPWATCH_RUNTIME_DIR", "");
  CHECK(RuntimeDirectories(7).size() == 2);
}

TEST_CASE("the first directory that can be had is made, for nobody else to enter") {
  testing::TemporaryDirectory directory;
  const std::string mine = directory / "mine";
  const auto opened = OpenRuntimeDirectory({"relative", directory / "no/parent", mine, "/tmp"}, ::geteuid());
  REQUIRE(opened.ok());
  CHECK(opened.value() == mine);
  struct stat about {};
  REQUIRE(::lstat(mine.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0700);
  CHECK(OpenRuntimeDirectory({mine}, ::geteuid()).ok());
}

TEST_CASE("the directory is its owner's to enter, whatever the umask") {
  testing::TemporaryDirectory directory;
  const mode_t before = ::umask(0777);
  const auto opened = OpenRuntimeDirectory({directory / "mine"}, ::geteuid());
  ::umask(before);
  CHECK(opened.ok());
}

TEST_CASE("a directory is refused if it is a link, a file, open to others or another's") {
  testing::TemporaryDirectory directory;
  const auto check = [&](const std::string& path, uid_t uid) {
    const Status checked = CheckRuntimeDirectory(path, uid);
    CHECK_FALSE(checked.ok());
    return checked.message();
  };
  const std::string real = directory / "real", link = directory / "link", file = directory / "file";
  REQUIRE(::mkdir(real.c_str(), 0700) == 0);
  REQUIRE(::symlink(real.c_str(), link.c_str()) == 0);
  testing::WriteInPlace(file, "");
  CHECK(Has(check(link, ::geteuid()), "is a symbolic link"));
  CHECK(Has(check(file, ::geteuid()), "is not a directory"));
  CHECK(Has(check(real, ::geteuid() + 1), "belongs to uid"));
  CHECK(Has(check(directory / "missing", ::geteuid()), "No such file"));
  CHECK(Has(check("relative", ::geteuid()), "is not an absolute path"));
  REQUIRE(::chmod(real.c_str(), 0750) == 0);
  CHECK(Has(check(real, ::geteuid()), "has mode 0750"));
  REQUIRE(::chmod(real.c_str(), 0700) == 0);
  CHECK(CheckRuntimeDirectory(real, ::geteuid()).ok());
}

TEST_CASE("without any directory the error has the reason of each") {
  const auto opened = OpenRuntimeDirectory({"/proc/nothing", "/dev/null"}, ::geteuid());
  REQUIRE_FALSE(opened.ok());
  CHECK(Has(opened.status().message(), "/proc/nothing"));
  CHECK(Has(opened.status().message(), "/dev/null is not a directory"));
}

}  // namespace
}  // namespace stepwatch::sockets
