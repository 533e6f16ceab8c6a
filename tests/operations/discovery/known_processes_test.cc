#include "operations/discovery/known_processes.h"

#include "tests/catch.h"
#include "tests/operations/child.h"

namespace stepwatch::operations {
namespace {

using testing::Child;

base::ProcessIdentity IdentityOf(const Child& child) {
  base::ProcessIdentity process = base::ThisProcess();
  process.pid = child.pid();
  process.started = child.ref().started;
  return process;
}

std::vector<std::string> KindsOf(const std::vector<Line>& lines) {
  std::vector<std::string> kinds;
  for (const Line& line : lines) kinds.emplace_back(KindOf(line));
  return kinds;
}

std::string EndText(double t, const std::string& run) {
  return R"({"t":)" + std::to_string(t) + R"(,"run":")" + run + R"(","rank":1,"event":{"kind":"end","reason":"ok"}})";
}
std::string BeatText(double t) {
  return R"({"t":)" + std::to_string(t) + R"(,"run":"r1","rank":1,"beat":{"step":4}})";
}

TEST_CASE("a process that ended unseen is distinguished from one that runs") {
  const Child lives;
  Child dies;
  CHECK(HasEnded({"r1", 0, IdentityOf(lives)}) == false);
  CHECK(HasEnded({"r1", 1, IdentityOf(dies)}) == false);
  const KnownProcess known{"r1", 1, IdentityOf(dies)};
  dies.Send(SIGKILL);
  dies.Reap();
  CHECK(HasEnded(known) == true);
}

TEST_CASE("a pid that somebody else has now is not the process that was known") {
  const Child child;
  base::ProcessIdentity earlier = IdentityOf(child);
  --earlier.started;
  CHECK(HasEnded({"r1", 0, earlier}) == true);
}

TEST_CASE("after a start of the machine all its processes are gone") {
  const Child child;
  base::ProcessIdentity earlier = IdentityOf(child);
  earlier.boot_id = "another";
  CHECK(HasEnded({"r1", 0, earlier}) == true);
}

TEST_CASE("of another machine's processes, and of those in another container, nothing is claimed") {
  const Child child;
  base::ProcessIdentity elsewhere = IdentityOf(child), inside = elsewhere, unknown = elsewhere;
  elsewhere.host = "another";
  elsewhere.boot_id = "another";
  inside.pid_namespace = "pid:[1]";
  inside.started = 1;
  unknown.started = 0;
  CHECK_FALSE(HasEnded({"r1", 0, elsewhere}));
  CHECK_FALSE(HasEnded({"r1", 1, inside}));
  CHECK_FALSE(HasEnded({"r1", 2, unknown}));
}

TEST_CASE("the last words of a process are reported before its end, without lines that were reported before") {
  const base::ProcessIdentity process{"h", "b", "n", 7, 100};
  const KnownProcess known{"r1", 1, process};
  const std::vector<control_socket::LeftEnd> ends = {
      {process, {BeatText(10), BeatText(20), EndText(21, "r1"), "garbage"}}};
  CHECK(KindsOf(LastLinesOf(known, ends, 10, 30)) == std::vector<std::string>{"beat", "end", "process_gone"});
  // An end has the process's time, and a beat that was made of its pulse the observer's.
  CHECK(KindsOf(LastLinesOf(known, ends, 21.5, 30)) == std::vector<std::string>{"end", "process_gone"});
  CHECK(KindsOf(LastLinesOf(known, {}, 10, 30)) == std::vector<std::string>{"process_gone"});
}

TEST_CASE("what another process, or another run of it, has left is not this one's") {
  const base::ProcessIdentity process{"h", "b", "n", 7, 100};
  base::ProcessIdentity later = process;
  later.started = 101;
  const KnownProcess known{"r1", 1, process};
  CHECK(LastLinesOf(known, {{later, {EndText(21, "r1")}}}, 0, 30).size() == 1);
  CHECK(LastLinesOf(known, {{process, {EndText(21, "r2")}}}, 0, 30).size() == 1);
}

TEST_CASE("a process of another container has left what it has left under its own pid") {
  const base::ProcessIdentity here{"h", "b", "n", 700, 100}, own{"inside", "b", "m", 1, 100};
  const KnownProcess known{"r1", 1, here, own};
  CHECK(LastLinesOf(known, {{own, {EndText(21, "r1")}}}, 0, 30).size() == 2);
}

}  // namespace
}  // namespace stepwatch::operations
