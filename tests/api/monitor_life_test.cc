// Beginnings and ends: closing, exceptions, forks, idling, a system that has nothing left to give.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>

#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/rounds.h"

namespace stepwatch::testing {
namespace {

// With the first thread of a program ThreadSanitizer starts one of its own, which is not to be counted as ours.
[[maybe_unused]] const bool a_thread_has_run = (std::thread([] {}).join(), true);

int Threads() {
  return static_cast<int>(EntriesOf("/proc/self/task"));
}
int Descriptors() {
  return static_cast<int>(EntriesOf("/proc/self/fd"));
}

// Runs `work` in a forked child; its exit code.
template <class Work>
int InChild(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("closing in mid-window writes all rows, ends the plan and leaves the file as it is") {
  StartedJob job(ConfigText({.collect_times = 50}));
  job.TrainSteps(4);
  job.model.TrainStep(job.monitor->recorder(), job.monitor->step());  // the fifth step is not ended
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3, 4});
  CHECK(Contents(job.config_path) == ConfigText({.collect_times = 50}));
  CHECK(job.Events(EventKind::kFinished).at(0).message == "monitor closed");
}

TEST_CASE("after Close every call does nothing") {
  StartedJob job(ConfigText({.collect_times = 50}));
  job.TrainSteps(2);
  REQUIRE(job.monitor->Close(std::chrono::seconds(10)).ok());
  const int64_t step = job.monitor->step();
  job.TrainSteps(3);
  CHECK(job.monitor->step() == step);
  Recorder& recorder = job.monitor->recorder();
  const Observation at{0};
  const float value = 1;
  const TensorView view = DenseView(&value, DType::kFloat32, nullptr, 0);
  Record record;
  CHECK_FALSE(recorder.collecting());
  CHECK_FALSE(recorder.Measure(at, view, &record));
  recorder.Enqueue(record);
  recorder.Observe(at, view);
  recorder.ObserveBatch(&at, &view, 1);
  recorder.ObserveMissing(at);
  recorder.ObserveAgreement(at, view, view);
  job.monitor->graphs().Capture({}, at, view);
  CHECK_FALSE(job.Attach().ok());
  CHECK(job.monitor->Amend(Ops({"max"})).code() == StatusCode::kUnavailable);
  job.monitor->PublishStructure({});
  CHECK(job.monitor->Close(std::chrono::seconds(1)).ok());
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
}

TEST_CASE("a monitor that was never attached closes") {
  Job job(ConfigText({}));
  REQUIRE(job.Create().ok());
  job.monitor->EndStep();
  job.Close();
  CHECK(job.output_dir.empty());
}

TEST_CASE("an exception in the training loop loses no row: the monitor's destructor writes them") {
  Job job(ConfigText({.collect_times = 50}));
  std::string directory;
  const auto train = [&] {
    REQUIRE(job.Create().ok());
    const std::unique_ptr<Monitor> monitor = std::move(job.monitor);
    REQUIRE(monitor->Attach(job.model.Sites(), &job.model).ok());
    for (int step = 0;; ++step) {
      job.model.TrainStep(monitor->recorder(), monitor->step());
      directory = monitor->GetStatus().output_dir;
      if (step == 30) throw std::runtime_error("loss is not a number");
      monitor->EndStep();
    }
  };
  CHECK_THROWS_AS(train(), std::runtime_error);
  job.output_dir = directory;
  job.CheckLedgers();
  CHECK(job.Steps("grad_reduced").size() == 30);
}

TEST_CASE("idle steps cost no thread and no descriptor, and nothing is left behind") {
  const int threads = Threads(), descriptors = Descriptors();
  {
    const ControlSockets sockets;
    Job job(ConfigText(Off()));
    job.options.use_inotify = true;
    job.options.look_interval = std::chrono::milliseconds(20);
    job.Start();
    job.TrainStep();
    const int threads_running = Threads();
    CHECK(threads_running == threads + 4);
    // The control socket opens on its own thread and the watches on the loop's, some time after Create. A look that is
    // under way has the file open: what is open between two looks counts.
    sockets.Find();
    job.Refresh();
    int descriptors_running = Descriptors();
    for (int i = 0; i < 100; ++i) descriptors_running = std::min(descriptors_running, Descriptors());
    job.TrainSteps(100000);
    CHECK(Threads() == threads_running);
    CHECK(Eventually([&] { return Descriptors() <= descriptors_running; }));
    CHECK_FALSE(std::filesystem::exists(job.options.output_dir));
  }
  CHECK(Threads() == threads);
  CHECK(Descriptors() == descriptors);
}

TEST_CASE("many windows, one after the other, leave nothing behind") {
  const int threads = Threads(), descriptors = Descriptors();
  {
    StartedJob job(ConfigText(Off()), 1);
    constexpr size_t kWindows = Rounds(size_t{50});
    for (size_t i = 0; i < kWindows; ++i) {
      REQUIRE(job.Edit(ConfigText({.collect_times = 1 + static_cast<int>(i % 3)})) == RefreshOutcome::kArmed);
      job.TrainSteps(5);
      // An edit that comes before it would take its place.
      REQUIRE(job.WaitFor(EventKind::kWroteBack, i + 1));
    }
    job.Settle();
    CHECK(Threads() == threads + 5);
    CHECK(job.Count(EventKind::kWroteBack) == kWindows);
  }
  CHECK(Threads() == threads);
  CHECK(Descriptors() == descriptors);
}

TEST_CASE("a forked child has no monitor: it writes nothing, takes nothing away and ends cleanly") {
  Job job(ConfigText({.collect_times = 4}));
  job.options.use_inotify = true;
  job.Start();
  job.TrainSteps(2);
  job.model.TrainStep(job.monitor->recorder(), 2);
  const int code = InChild([&job] {
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) job.TrainStep();
    const bool nothing = !job.monitor->recorder().collecting() && job.monitor->step() == 2 &&
                         job.monitor->Refresh(std::chrono::seconds(60)) == RefreshOutcome::kUnchanged &&
                         !job.Attach().ok() && job.monitor->GetStatus().plan_id == 0 &&
                         job.monitor->Close(std::chrono::seconds(60)).ok();
    job.monitor->PublishStructure({});
    job.monitor.reset();
    return nothing && std::chrono::steady_clock::now() - before < std::chrono::seconds(30) ? 0 : 1;
  });
  CHECK(code == 0);
  job.monitor->EndStep();
  job.TrainSteps(4);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 1, .gradients = false}));
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3, 4});
  CHECK(job.RowsByStep("grad_reduced") == std::map<int64_t, int>{{1, 2}, {2, 2}, {3, 2}, {4, 2}});
  CHECK(job.Steps("param_origin") == Steps{8});
}

TEST_CASE("children that ask for the status while the loop is busy are not caught by its lock") {
  Job job(ConfigText(Off()));
  job.options.look_interval = std::chrono::milliseconds(1);
  job.Start();
  for (int i = 0; i < 20; ++i) {
    job.Edit(ConfigText({.collect_times = 1 + i % 2}));
    CHECK(InChild([&job] {
            ::alarm(20);
            return job.monitor->GetStatus().output_dir.empty() ? 0 : 1;
          }) == 0);
    job.TrainSteps(3);
    job.Settle();
  }
}

#ifndef __SANITIZE_ADDRESS__  // UBSan looks at an exception's type through a pipe, which takes descriptors
TEST_CASE("a process without descriptors gets a reason, and can try again") {
  Job job(ConfigText({}));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const Status created = job.Create();
  const Status attached = created.ok() ? job.Attach() : created;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(attached.code() == StatusCode::kExhausted);
  if (!created.ok()) REQUIRE(job.Create().ok());
  CHECK(job.Attach().ok());
  job.TrainSteps(4);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2});
}
#endif

// Blocks in its first Write for the life of the process.
class Hanging final : public Sink {
 public:
  WriteResult Write(const RecordLayout&, const StepFrame&) override {
    for (;;) ::pause();
  }
};

TEST_CASE("a sink that hangs for ever does not keep the program from ending") {
  Job job(ConfigText({.collect_times = 2}));
  job.options.extra_sinks = {std::make_shared<Hanging>()};
  CHECK(InChild([&job] {
          if (!job.Create().ok() || !job.Attach().ok()) return 1;
          job.TrainSteps(4);
          const Status closed = job.monitor->Close(std::chrono::milliseconds(50));
          job.monitor.reset();
          return closed.code() == StatusCode::kTimedOut && job.Count(EventKind::kDegraded) == 0 ? 0 : 2;
        }) == 0);
}

// Holds its caller until the test lets it go; whoever calls afterwards goes through.
class Gate {
 public:
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++passing_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitCaller() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return passing_ > 0; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int passing_ = 0;
  bool open_ = false;
};

// Hangs in its first Write until the test lets it go.
class HangingFor final : public Sink {
 public:
  explicit HangingFor(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  WriteResult Write(const RecordLayout&, const StepFrame& frame) override {
    gate_->Pass();
    return {Status(), frame.count};
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// The hanging threads are let go only after Close, which must come back without them; half a minute is what it once
// granted a loop that hangs.
constexpr std::chrono::milliseconds kShort{200};
constexpr std::chrono::seconds kFarBeyond{15};

TEST_CASE("closing takes its time and no more when a sink and the loop hang, and reports no event afterwards") {
  struct Listener {
    Gate gate;
    std::atomic<bool> closed{false};
    std::atomic<int> late_events{0};
  };
  const auto listener = std::make_shared<Listener>();
  const auto sink_gate = std::make_shared<Gate>();
  const int threads = Threads();
  Job job(ConfigText({.collect_times = 3}));
  job.options.extra_sinks = {std::make_shared<HangingFor>(sink_gate)};
  job.options.on_event = [listener](const Event& event) {
    if (listener->closed) ++listener->late_events;
    if (event.kind == EventKind::kApplied) listener->gate.Pass();
  };
  job.Start();
  job.TrainSteps(6);
  listener->gate.AwaitCaller();
  sink_gate->AwaitCaller();
  const auto start = std::chrono::steady_clock::now();
  CHECK(job.monitor->Close(kShort).code() == StatusCode::kTimedOut);
  listener->closed = true;
  CHECK(std::chrono::steady_clock::now() - start < kFarBeyond);
  job.monitor.reset();
  // Both threads continue and find everything that they use, but no listener.
  listener->gate.Open();
  sink_gate->Open();
  REQUIRE(Eventually([&] { return Threads() == threads; }));
  CHECK(listener->late_events == 0);
}

TEST_CASE("a report of the front end waits neither for the user's function nor for the loop") {
  struct Listener {
    Gate gate;
    std::mutex mutex;
    std::vector<std::string> messages;
  };
  const auto listener = std::make_shared<Listener>();
  Job job(ConfigText({.collect_times = 3}));
  job.options.on_event = [listener](const Event& event) {
    if (event.kind == EventKind::kSeen) listener->gate.Pass();
    const std::lock_guard<std::mutex> lock(listener->mutex);
    if (event.kind == EventKind::kWarning || event.kind == EventKind::kDegraded)
      listener->messages.push_back(event.message);
  };
  REQUIRE(job.Create().ok());
  std::thread edits([&] { (void)job.Attach(); });
  listener->gate.AwaitCaller();
  constexpr int kEvents = 1000;
  for (int i = 0; i < kEvents; ++i) {
    Event event;
    event.kind = EventKind::kWarning;
    event.message = std::to_string(i);
    job.monitor->Report(event);
  }
  listener->gate.Open();
  edits.join();
  REQUIRE(job.monitor->Close(std::chrono::seconds(10)).ok());
  constexpr int kReported = 256;
  REQUIRE(listener->messages.size() == kReported + 1);
  CHECK(listener->messages.front() == "0");
  CHECK(listener->messages[kReported - 1] == std::to_string(kReported - 1));
  CHECK(listener->messages.back() ==
        std::to_string(kEvents - kReported) + " events of the front end were dropped while the loop thread was busy");
}

}  // namespace
}  // namespace stepwatch::testing
