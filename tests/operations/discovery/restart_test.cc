// A discovery that takes over from an earlier one.
#include <unistd.h>

#include "controller/control_socket/left_end.h"
#include "operations/discovery/discovery.h"
#include "tests/catch.h"
#include "tests/operations/discovery/watch.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::FoundJob;
using testing::ServingJob;
using testing::TemporaryDirectory;
using testing::Watch;

// The processes that an earlier discovery knew.
std::vector<KnownProcess> KnownBefore(const TemporaryDirectory& directory) {
  Watch watch(directory.path());
  REQUIRE(watch.Sees("r1", "beat"));
  REQUIRE(watch.Until([&] { return !watch.discovery->Processes().empty(); }));
  return watch.discovery->Processes();
}

TEST_CASE("a process that was killed unseen is reported as gone, once") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 3);
  const std::vector<KnownProcess> known = KnownBefore(directory);
  job.child_.Send(SIGKILL);
  Watch watch(directory.path(), {}, {}, known);
  REQUIRE(watch.Sees("r1", "process_gone"));
  CHECK(watch.lines.back().rank == 3);
  watch.RunFor(2500ms);
  CHECK(watch.Count("r1", "process_gone") == 1);
  CHECK(watch.discovery->Processes().empty());
}

TEST_CASE("a process that lives is watched on, and its later end is reported once") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  const std::vector<KnownProcess> known = KnownBefore(directory);
  Watch watch(directory.path(), {}, {}, known);
  REQUIRE(watch.Sees("r1", "beat"));
  watch.RunFor(1500ms);
  CHECK(watch.Count("r1", "process_gone") == 0);
  job.child_.Send(SIGKILL);
  REQUIRE(watch.Sees("r1", "process_gone"));
  watch.RunFor(1500ms);
  CHECK(watch.Count("r1", "process_gone") == 1);
}

TEST_CASE("the end of a process whose control socket does not answer any more is reported") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  const std::vector<KnownProcess> known = KnownBefore(directory);
  job.child_.Send(SIGSTOP);
  Watch watch(directory.path(), {}, {}, known);
  watch.RunFor(1500ms);
  CHECK(watch.Count("r1", "process_gone") == 0);
  job.child_.Send(SIGKILL);
  CHECK(watch.Sees("r1", "process_gone"));
}

TEST_CASE("a process that has left its end is reported as ended, and then as gone") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  const std::vector<KnownProcess> known = KnownBefore(directory);
  const std::string end = R"({"t":3,"run":"r1","rank":0,"event":{"kind":"end","reason":"ok"}})";
  REQUIRE(control_socket::LeaveEnd(directory.path(), {known[0].process, {end}}, std::nullopt, base::FileSystem::Real())
              .ok());
  job.child_.Send(SIGKILL);
  Watch watch(directory.path(), {}, {}, known);
  REQUIRE(watch.Sees("r1", "process_gone"));
  REQUIRE(watch.lines.size() == 2);
  CHECK(KindOf(watch.lines[0]) == "end");
  CHECK(KindOf(watch.lines[1]) == "process_gone");
}

TEST_CASE("a job whose pulse is not to be had is reported as ended where it has left its end") {
  FoundJob found;
  auto& [directory, job, watch] = found;
  base::ProcessIdentity process = base::ThisProcess();
  process.pid = job.child_.pid();
  process.started = job.child_.ref().started;
  const std::string end = R"({"t":3,"run":"r1","rank":0,"event":{"kind":"end","reason":"ok"}})";
  REQUIRE(control_socket::LeaveEnd(directory.path(), {process, {end}}, std::nullopt, base::FileSystem::Real()).ok());
  job.child_.Send(SIGKILL);
  REQUIRE(watch.Sees("r1", "process_gone"));
  CHECK(watch.Count("r1", "end") == 1);
  CHECK(KindOf(watch.lines.back()) == "process_gone");
}

TEST_CASE("a process whose state is not visible here stays known, and is not reported") {
  const TemporaryDirectory directory;
  KnownProcess elsewhere{"r1", 0, base::ThisProcess()};
  elsewhere.process.pid_namespace = "pid:[1]";
  elsewhere.seen_t = 1e12;
  Watch watch(directory.path(), {}, {}, {elsewhere});
  watch.RunFor(1500ms);
  CHECK(watch.lines.empty());
  CHECK(watch.discovery->Processes().size() == 1);
}

}  // namespace
}  // namespace stepwatch::operations
