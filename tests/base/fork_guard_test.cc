#include "src/base/fork_guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("a forked child knows that it is not the owner, and the owner stays one") {
  ForkGuard guard;
  guard.flag().store(true);
  CHECK(guard.InOwner());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(guard.InOwner() || guard.flag().load() ? 1 : 0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(guard.InOwner());
  CHECK(guard.flag().load());
}

}  // namespace
}  // namespace stepwatch::base
