// With real processes, which serve a small control socket of their own.
#include "operations/discovery/discovery.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "operations/discovery/known_processes.h"
#include "operations/trace/write_line.h"
#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/discovery/watch.h"
#include "tests/operations/fake_job_socket.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;
using testing::BeatText;
using testing::Child;
using testing::FoundJob;
using testing::ServingJob;
using testing::StartText;
using testing::TemporaryDirectory;
using testing::Watch;

// A pulse that the test holds.
struct FakePulse {
  PulseLook look;
  std::vector<LastWordLine> words;

  class Reader final : public PulseReader {
   public:
    explicit Reader(FakePulse& pulse) : pulse_(pulse) {}
    Result<PulseLook> Look() const override { return pulse_.look; }
    std::vector<LastWordLine> LastWords() const override { return pulse_.words; }
    bool IsOutdated() const override { return false; }

   private:
    FakePulse& pulse_;
  };
  OpenPulse Opener() {
    return [this](const std::string&, std::optional<uid_t>) -> Result<std::unique_ptr<PulseReader>> {
      return std::unique_ptr<PulseReader>(std::make_unique<Reader>(*this));
    };
  }
};

TEST_CASE("a job is found and reported from its start on, and its kill is reported once") {
  FoundJob found;
  auto& [directory, job, watch] = found;
  CHECK(watch.Count("r1", "start") == 1);
  CHECK(watch.Count("r1", "process_gone") == 0);
  job.child_.Send(SIGKILL);
  REQUIRE(watch.Sees("r1", "process_gone"));
  CHECK(watch.Until([&] { return watch.discovery->jobs() == 0; }));
  CHECK(watch.Count("r1", "process_gone") == 1);
  CHECK(watch.Count("r1", "beat") == 1);
}

TEST_CASE("a process that is stopped is reported as such, and not as gone") {
  FoundJob found;
  auto& [directory, job, watch] = found;
  job.child_.Send(SIGSTOP);
  REQUIRE(watch.Sees("r1", "process_state"));
  CHECK(LineJson(watch.lines.back()).find("\"state\":\"T\"") != std::string::npos);
  job.child_.Send(SIGCONT);
  CHECK(watch.Until([&] { return watch.Count("r1", "process_state") == 2; }));
  CHECK(watch.Count("r1", "process_gone") == 0);
}

TEST_CASE(
    "a control socket that vanishes while its process lives is no loss, and the process's end is still reported") {
  FoundJob found;
  auto& [directory, job, watch] = found;
  std::filesystem::remove(job.path_);
  watch.RunFor(2500ms);
  CHECK(watch.discovery->jobs() == 1);
  CHECK(watch.Count("r1", "process_gone") == 0);
  job.child_.Send(SIGKILL);
  CHECK(watch.Sees("r1", "process_gone"));
}

TEST_CASE("jobs that hang, drip, answer garbage or are dead do not delay a job that is well") {
  const TemporaryDirectory directory;
  // Forked before the others have threads, whose locks it would inherit.
  const ServingJob job(directory, "well", 0);
  const testing::FakeJobSocket hangs(directory / "100-1.sock", [](const std::string&) { return std::string(); });
  const testing::FakeJobSocket drips(
      directory / "101-1.sock", [](const std::string&) { return testing::HttpOk(std::string(100000, ' ')); }, 100ms);
  const testing::FakeJobSocket garbage(directory / "102-1.sock",
                                       [](const std::string&) { return testing::HttpOk("{]"); });
  const testing::FakeJobSocket liar(directory / "103-1.sock",
                                    [](const std::string&) { return testing::Beats("r1", 0, {"{\"t\":\"x\"}"}, 0); });
  ::close(testing::ListenAt(directory / "104-1.sock"));
  testing::WriteInPlace(directory / "105-1.sock", "no socket");
  Watch watch(directory.path());
  REQUIRE(watch.Sees("well", "beat"));
  watch.RunFor(3000ms);
  job.child_.Send(SIGKILL);
  CHECK(watch.Sees("well", "process_gone"));
  CHECK(hangs.connections < 5);
  CHECK(garbage.connections < 5);
}

TEST_CASE("an end that the pulse knows stands before the process's being gone") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  FakePulse pulse;
  pulse.look.run = "r1";
  pulse.look.step = 7;
  pulse.look.phase = RunPhase::kTrain;
  Watch watch(directory.path(), {.open_pulse = pulse.Opener()});
  REQUIRE(watch.Sees("r1", "beat"));
  watch.RunFor(500ms);
  pulse.look.end = EndReason::kOk;
  pulse.words = {{9, R"({"t":3,"run":"r1","rank":0,"event":{"kind":"end","reason":"ok"}})"}};
  job.child_.Send(SIGKILL);
  REQUIRE(watch.Sees("r1", "process_gone"));
  REQUIRE(watch.Count("r1", "end") == 1);
  const auto position = [&](const std::string& kind) {
    return std::find_if(watch.lines.begin(), watch.lines.end(), [&](const Line& line) { return KindOf(line) == kind; });
  };
  CHECK(position("end") < position("process_gone"));
}

TEST_CASE("a pulse that another process writes than serves the control socket has no process here") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  FakePulse pulse;
  pulse.look.run = "r1";
  pulse.look.process.started = 1;
  Watch watch(directory.path(), {.open_pulse = pulse.Opener()});
  REQUIRE(watch.Sees("r1", "beat"));
  watch.RunFor(1000ms);
  job.child_.Send(SIGKILL);
  watch.RunFor(1000ms);
  CHECK(watch.Count("r1", "process_gone") == 0);
}

TEST_CASE("a process that stops making steps is looked into, and a wait for its peers is reported") {
  const TemporaryDirectory directory;
  const std::string py_spy = directory / "py-spy";
  testing::WriteInPlace(py_spy,
                        "#!/bin/sh\necho '[{\"thread_name\":\"MainThread\",\"frames\":[{\"name\":\"all_reduce\","
                        "\"filename\":\"/x/torch/distributed/distributed_c10d.py\",\"line\":1}]}]'\n");
  std::filesystem::permissions(py_spy, std::filesystem::perms::owner_all);
  const ServingJob job(directory, "r1", 0);
  FakePulse pulse;
  pulse.look.run = "r1";
  pulse.look.process.started = job.child_.ref().started;
  pulse.look.step = 7;
  pulse.look.phase = RunPhase::kTrain;
  DiscoveryOptions settings;
  settings.stacks.py_spy = py_spy;
  Watch watch(directory.path(), {.open_pulse = pulse.Opener()}, settings);
  REQUIRE(watch.Sees("r1", "beat"));
  for (int i = 0; i < 8; ++i) {
    watch.RunFor(300ms);
    pulse.look.step = *pulse.look.step + 1;
  }
  CHECK(watch.Count("r1", "collective_wait") == 0);
  REQUIRE(watch.Sees("r1", "collective_wait"));
  CHECK(watch.Count("r1", "stacks") == 0);

  std::vector<RankStacks> stacks;
  bool is_done = false;
  watch.discovery->CollectStacks("r1", {0, 5}, [&](std::vector<RankStacks> found) {
    stacks = std::move(found);
    is_done = true;
  });
  REQUIRE(watch.Until([&] { return is_done; }));
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].report.collective == "all_reduce");
  CHECK(watch.Count("r1", "stacks") == 1);
}

TEST_CASE("a run that is not here has no stacks, and the callback still comes") {
  const TemporaryDirectory directory;
  Watch watch(directory.path());
  bool is_done = false;
  watch.discovery->CollectStacks("nobody", {}, [&](const std::vector<RankStacks>& found) {
    CHECK(found.empty());
    is_done = true;
  });
  CHECK(watch.Until([&] { return is_done; }));
}

TEST_CASE("the metrics of all jobs have the labels of their jobs, and a job that hangs is missing") {
  const TemporaryDirectory directory;
  const ServingJob a(directory, "r1", 0), b(directory, "r1", 1);
  Watch watch(directory.path());
  REQUIRE(watch.Until([&] { return watch.Count("r1", "beat") == 2; }));
  b.child_.Send(SIGSTOP);
  std::optional<JobPages> found;
  watch.discovery->FetchMetrics([&](const JobPages& pages) { found = pages; });
  REQUIRE(watch.Until([&] { return found.has_value(); }));
  REQUIRE(found->pages.size() == 1);
  CHECK(found->missing == 1);
  const std::string page = MergeExpositions(found->pages, 1, http::MetricsFormat::kPrometheus);
  CHECK(page.find("step{run=\"r1\",rank=\"0\",job=\"" + std::to_string(a.child_.pid()) + "-1\"} 7\n") !=
        std::string::npos);
  CHECK(page.find("rank=\"1\"") == std::string::npos);
}

TEST_CASE("a stopped discovery reports no more lines and leaves nothing behind") {
  FoundJob found;
  auto& [directory, job, watch] = found;
  watch.discovery->Stop();
  const size_t count = watch.lines.size();
  job.child_.Send(SIGKILL);
  watch.discovery.reset();
  watch.RunFor(100ms);
  CHECK(watch.lines.size() == count);
}

TEST_CASE("a directory that others can write to is not looked into") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  ::chmod(directory.path().c_str(), 0777);
  Watch watch(directory.path());
  watch.RunFor(1500ms);
  CHECK(watch.discovery->jobs() == 0);
}

TEST_CASE("the processes of jobs can be kept, and distinguished when they have ended") {
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 3);
  Watch watch(directory.path());
  REQUIRE(watch.Sees("r1", "beat"));
  REQUIRE(watch.Until([&] { return !watch.discovery->Processes().empty(); }));
  const std::vector<KnownProcess> known = watch.discovery->Processes();
  REQUIRE(known.size() == 1);
  CHECK(known[0].run == "r1");
  CHECK(known[0].rank == 3);
  CHECK(HasEnded(known[0]) == false);
  job.child_.Send(SIGKILL);
  REQUIRE(watch.Sees("r1", "process_gone"));
  CHECK(watch.discovery->Processes().empty());
}

// Runs `body` as process 1 of a pid namespace of its own, and ends with what it returns; 77: not allowed here.
void InContainer(const std::function<int()>& body) {
  if (::unshare(CLONE_NEWPID) != 0) ::_exit(77);
  const pid_t first = ::fork();
  if (first == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(first, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

bool HasContainers() {
  const Child child([] { InContainer([] { return 0; }); });
  siginfo_t end{};
  ::waitid(P_PID, static_cast<id_t>(child.pid()), &end, WEXITED | WNOWAIT);
  return end.si_status == 0;
}

TEST_CASE("two containers whose trainers are both process 1 are two jobs, and the end of one is not the other's") {
  if (!HasContainers()) return;
  const TemporaryDirectory directory;
  const auto serve = [&](const std::string& run, int number) {
    return [&directory, run, number] {
      InContainer([&] {
        const std::vector<std::string> lines = {StartText(run, 0), BeatText(run, 0, 7)};
        testing::ServeAt(
            testing::ListenAt(directory / (std::to_string(::getpid()) + "-" + std::to_string(number) + ".sock")),
            [&](const std::string& target) { return testing::Beats(run, 0, lines, testing::SinceOf(target)); });
        return 0;
      });
    };
  };
  const Child a(serve("a", 1)), b(serve("b", 2));
  Watch watch(directory.path());
  REQUIRE(watch.Sees("a", "beat"));
  REQUIRE(watch.Sees("b", "beat"));
  CHECK(std::filesystem::exists(directory / "1-1.sock"));
  CHECK(std::filesystem::exists(directory / "1-2.sock"));
  a.Send(SIGKILL);  // and with it the container
  REQUIRE(watch.Sees("a", "process_gone"));
  watch.RunFor(1000ms);
  CHECK(watch.Count("b", "process_gone") == 0);
}

TEST_CASE("a process that has no pid in our container is reported when it ends, where the kernel has pidfds of peers") {
  if (!HasContainers()) return;
  const TemporaryDirectory directory;
  const ServingJob job(directory, "r1", 0);
  const pid_t trainer = job.child_.pid();
  const Child observer([&] {
    // Kills from outside of the container, where the trainer has a pid.
    const int ready = ::eventfd(0, EFD_CLOEXEC);
    if (::fork() == 0) {
      uint64_t count = 0;
      (void)!::read(ready, &count, sizeof count);
      ::kill(trainer, SIGKILL);
      ::_exit(0);
    }
    InContainer([&] {
      Watch watch(directory.path());
      if (!watch.Sees("r1", "beat")) return 2;
      if (!watch.discovery->Processes().empty()) return 3;
      (void)!::eventfd_write(ready, 1);
      return watch.Sees("r1", "process_gone") ? 0 : 4;
    });
  });
  siginfo_t end{};
  ::waitid(P_PID, static_cast<id_t>(observer.pid()), &end, WEXITED | WNOWAIT);
  utsname kernel{};
  ::uname(&kernel);
  int major = 0, minor = 0;
  (void)std::sscanf(kernel.release, "%d.%d", &major, &minor);
  const bool has_pidfds_of_peers = std::pair(major, minor) >= std::pair(6, 5);
  if (has_pidfds_of_peers) CHECK(end.si_status == 0);
}

}  // namespace
}  // namespace stepwatch::operations
