#include "operations/witness/run_program.h"

#include <sys/eventfd.h>

#include <array>
#include <sstream>

#include "src/base/file.h"
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

// The lines that `pids` of a program has printed are of processes that are no more.
bool AreGone(const std::string& pids) {
  std::istringstream lines(pids);
  for (int pid = 0; lines >> pid;) {
    const auto stat = base::StatOf(pid);
    if (stat && stat->state != 'Z') return false;
  }
  return !pids.empty();
}

TEST_CASE("a program that closes what it prints to and runs on is ended as well") {
  const ProgramOutput output =
      Shell("trap '' TERM; echo $$; exec >&- 2>&-; while :; do sleep 1; done", {.time = 200ms});
  CHECK(output.timed_out);
  CHECK(testing::Eventually([&] { return AreGone(output.out); }));
}

TEST_CASE("a process that a program leaves behind is killed, and is not waited for") {
  const ProgramOutput output = Shell("trap '' TERM; sleep 1000 & echo $!");
  CHECK(output.exit_code == 0);
  CHECK_FALSE(output.timed_out);
  CHECK(testing::Eventually([&] { return AreGone(output.out); }));
}

TEST_CASE("a program is ended at once when its caller has to end") {
  const base::UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  const ProgramOutput output =
      Shell("trap '' TERM; sleep 1000 & wait", {.time = std::chrono::hours(1), .stop_fd = stop.get()});
  CHECK(output.timed_out);
  CHECK(output.exit_code == 128 + SIGKILL);
}

TEST_CASE("a program that ignores its end does not outlive a kill of its starter") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  testing::Child child([&] {
    const std::string script = "trap '' TERM; sleep 1000 & echo $$ $! >/proc/" + std::to_string(::getpid()) + "/fd/" +
                               std::to_string(ends[1]) + "; while :; do sleep 1; done";
    (void)RunProgram({"/bin/sh", "-c", script}, {.time = std::chrono::hours(1)});
  });
  std::array<char, 100> text{};
  REQUIRE(::read(ends[0], text.data(), text.size() - 1) > 0);
  child.Send(SIGKILL);
  child.Reap();
  CHECK(testing::Eventually([&] { return AreGone(text.data()); }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a missing program is an error") {
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
