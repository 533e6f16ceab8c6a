// A process is known again, and one of elsewhere is not taken for dead.
#include "src/base/process_identity.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("this process runs, and is distinguished from another one with its number") {
  ProcessIdentity own = ThisProcess();
  CHECK(own.pid == ::getpid());
  CHECK_FALSE(own.host.empty());
  CHECK(IsRunning(own) == true);
  ++own.started;
  CHECK(IsRunning(own) == false);
}

TEST_CASE("a process that has ended does not run") {
  ProcessIdentity child = ThisProcess();
  child.pid = ::fork();
  if (child.pid == 0) ::_exit(0);
  REQUIRE(::waitpid(child.pid, nullptr, 0) == child.pid);
  CHECK(IsRunning(child) == false);
}

TEST_CASE("of a process on another machine, in another container or before a restart nothing is known") {
  const ProcessIdentity own = ThisProcess();
  ProcessIdentity other = own;
  SECTION("machine") {
    other.host = "elsewhere";
  }
  SECTION("restart") {
    other.boot_id = "0";
  }
  SECTION("container") {
    other.pid_namespace = "pid:[1]";
  }
  SECTION("nothing was written down") {
    other = {};
  }
  CHECK_FALSE(IsRunning(other).has_value());
}

}  // namespace
}  // namespace stepwatch::base
