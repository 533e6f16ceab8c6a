#include "operations/witness/run_program.h"

#include "tests/catch.h"
#include "tests/operations/child.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;

ProgramOutput Shell(const std::string& script, const ProgramLimits& limits = {.time = 60s}) {
  Result<ProgramOutput> ran = RunProgram({"/bin/sh", "-c", script}, limits);
  REQUIRE(ran.ok());
  return ran.value();
}

TEST_CASE("a program's exit code and what it prints come back, both streams apart") {
  const ProgramOutput output = Shell("echo out; echo err >&2; exit 3");
  CHECK(output.exit_code == 3);
  CHECK(output.out == "out\n");
  CHECK(output.err == "err\n");
  CHECK_FALSE(output.timed_out);
}

TEST_CASE("a program that prints without end is cut and ends all the same") {
  const ProgramOutput output = Shell("head -c 3000000 /dev/zero", {.time = 60s, .bytes_max = 1000});
  CHECK(output.out.size() == 1000);
  CHECK(output.is_cut);
  CHECK(output.exit_code == 0);
}

TEST_CASE("a program that takes too long is ended with all that it has started") {
  const ProgramOutput output = Shell("sleep 1000 & echo $!; wait", {.time = 200ms});
  CHECK(output.timed_out);
  CHECK(output.exit_code == 128 + SIGTERM);
  const int grandchild = std::stoi(output.out);
  CHECK(testing::Eventually([&] {
    const auto stat = base::StatOf(grandchild);
    return !stat || stat->state == 'Z';
  }));
}

TEST_CASE("a program that will not be ended is killed") {
  const ProgramOutput output = Shell("trap '' TERM; while :; do sleep 1; done", {.time = 200ms});
  CHECK(output.timed_out);
  CHECK(output.exit_code == 128 + SIGKILL);
}

TEST_CASE("a program that is not there is said to be so") {
  const Result<ProgramOutput> ran = RunProgram({"/nonexistent/py-spy", "dump"});
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.status().message() == "cannot start /nonexistent/py-spy: No such file or directory");
}

TEST_CASE("a program inherits no descriptor, no blocked signal and nothing that steers its libraries") {
  ::setenv("LD_PRELOAD", "", 1);
  const ProgramOutput output =
      Shell("ls /proc/self/fd | wc -l; grep SigBlk /proc/self/status; env | grep -c LD_PRELOAD");
  ::unsetenv("LD_PRELOAD");
  CHECK(output.out == "4\nSigBlk:\t0000000000000000\n0\n");  // the three, and that of ls
}

}  // namespace
}  // namespace stepwatch::operations
