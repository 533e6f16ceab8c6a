// What the control socket of a monitor costs a training step, as ratios within one run: with nobody there, and with
// visitors who ask and never read, who say a byte now and then, or who ask ten thousand things at once; or with a
// stepwatchd.
//
// Two monitors are attached to the same kind of model, one with a control socket and one without, and timed in turns on
// the clock of the step thread, for which the time of other threads does not count. Two ways, which must agree: what
// the step boundary takes longer, divided by the step (exact, blind to side effects), and whole steps.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "bench/rounds.h"
#include "bench/stepwatchd_process.h"
#include "controller/control_socket/find_jobs.h"
#include "src/base/file.h"
#include "src/http/client.h"
#include "src/sockets/unix_address.h"
#include "src/testing/synthetic_model.h"
#include "stepwatch/monitor.h"

namespace stepwatch::bench {
namespace {

constexpr int kLayers = 16;
constexpr int64_t kElements = 16;
constexpr int kWork = 500000;  // additions one after the other: some half a millisecond
constexpr int kQuestions = 10000;
constexpr int kSlowVisitors = 20;
const std::string kQuestion = "GET /v1/status HTTP/1.1\r\n\r\n";

class Directory {
 public:
  Directory() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a directory like " + path_);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "stepwatch-bench-XXXXXX";
};

// Attached and idle: dynamic_on is false.
class IdleJob {
 public:
  IdleJob(const Directory& directory, bool has_socket) : model_(kLayers, kElements, 1) {
    Options options;
    options.config_path = directory / "config.json";
    options.output_dir = directory / "out";
    options.dynamic = true;
    options.control_socket = has_socket;
    options.on_event = [](const Event&) {};
    auto created = Monitor::Create(options);
    if (!created.ok()) throw std::runtime_error(created.status().ToString());
    monitor_ = std::move(created).value();
    if (const Status attached = monitor_->Attach(model_.Sites(), &model_); !attached.ok())
      throw std::runtime_error(attached.ToString());
  }
  void Step() {
    for (int i = 0; i < kWork; ++i) sum_ += 1e-9;
    Keep(sum_);
    model_.TrainStep(monitor_->recorder(), monitor_->step());
    monitor_->EndStep();
  }
  void Boundary() { monitor_->EndStep(); }

 private:
  double sum_ = 0;
  testing::SyntheticModel model_;
  std::unique_ptr<Monitor> monitor_;
};

Spread Exactly(double value) {
  return {value, value, value};
}

// Without waiting; false: the other end takes no more.
bool Send(int fd, const std::string& text) {
  return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(text.size());
}

base::UniqueFd Visit(const std::string& path) {
  const auto address = sockets::UnixAddress(path);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!address || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    throw std::runtime_error("cannot connect to " + path);
  return fd;
}

// What goes on before the control socket until it is told to end.
using Crowd = std::function<void(const std::string& path, const std::atomic<bool>& ends)>;

void NeverRead(const std::string& path, const std::atomic<bool>& ends) {
  while (!ends) {
    const base::UniqueFd fd = Visit(path);
    while (!ends && Send(fd.get(), kQuestion)) {
    }
    (void)::poll(nullptr, 0, 100);
  }
}

void SayAByteNowAndThen(const std::string& path, const std::atomic<bool>& ends) {
  while (!ends) {
    std::vector<base::UniqueFd> visitors;
    for (int i = 0; i < kSlowVisitors; ++i) visitors.push_back(Visit(path));
    for (size_t byte = 0; byte < kQuestion.size() && !ends; ++byte) {
      for (const base::UniqueFd& visitor : visitors) (void)Send(visitor.get(), {kQuestion[byte]});
      for (int i = 0; i < 20 && !ends; ++i) (void)::poll(nullptr, 0, 50);
    }
  }
}

void AskTenThousandThings(const std::string& path, const std::atomic<bool>& ends) {
  while (!ends) {
    const base::UniqueFd fd = Visit(path);
    int asked = 0;
    char heard[1 << 16];
    for (pollfd one{fd.get(), POLLIN | POLLOUT, 0}; !ends;
         one.events = asked < kQuestions ? POLLIN | POLLOUT : POLLIN) {
      if (::poll(&one, 1, 100) <= 0) break;  // all is answered
      if ((one.revents & POLLIN) != 0 && ::recv(fd.get(), heard, sizeof heard, MSG_DONTWAIT) <= 0) break;
      if ((one.revents & POLLOUT) != 0) asked += Send(fd.get(), kQuestion) ? 1 : 0;
    }
  }
}

class Bench {
 public:
  Bench(int rounds, std::string stepwatchd) : rounds_(rounds), stepwatchd_(std::move(stepwatchd)) {
    std::ofstream(directory_ / "config.json") << R"({"dynamic_on": false})";
    ::setenv("STEPWATCH_RUNTIME_DIR", (directory_ / "run").c_str(), 1);
    closed_ = std::make_unique<IdleJob>(directory_, false);
    open_ = std::make_unique<IdleJob>(directory_, true);
    while (path_.empty()) {
      for (const control_socket::FoundJob& job : control_socket::FindJobs({.directories = {directory_ / "run"}}))
        path_ = job.path;
      (void)::poll(nullptr, 0, 1);
    }
  }

  void Run() {
    report_.Section(
        "an idle monitor with a control socket, on the clock of the step thread: what it adds to a step of one "
        "without, and whole"
        " steps in turns");
    if (!stepwatchd_.empty()) return RunWatched();
    Measure("control_socket_idle", nullptr, "nobody is there");
    Measure("control_socket_never_read", NeverRead, "one who asks and never reads");
    Measure("control_socket_byte_a_second", SayAByteNowAndThen, "20 who say a byte a second");
    Measure("control_socket_ten_thousand", AskTenThousandThings, "10,000 questions at once, again and again");
  }
  bool WriteJson(const std::string& path) const { return path.empty() || report_.WriteJson(path); }

 private:
  void RunWatched() {
    Measure("stepwatchd_absent", nullptr, "there is no stepwatchd");
    const StepwatchdProcess stepwatchd(stepwatchd_, directory_ / "run");
    stepwatchd.AwaitRuns(1);
    Measure("stepwatchd_watches", nullptr, "stepwatchd watches");
    stepwatchd.Hang();
    Measure("stepwatchd_hangs", nullptr, "stepwatchd is stopped, with its connection open");
    Measure("stepwatchd_never_reads", NeverRead, "and somebody asks and never reads");
  }

  void Measure(const std::string& name, const Crowd& crowd, const char* who) {
    std::atomic<bool> ends{false};
    std::string fault;
    std::thread visitors([&] {
      try {
        if (crowd) crowd(path_, ends);
      } catch (const std::exception& error) {
        fault = error.what();
      }
    });
    Rounds steps(Clock::kThreadCpu), boundaries(Clock::kThreadCpu);
    const size_t with = steps.Add([this] { open_->Step(); }), without = steps.Add([this] { closed_->Step(); });
    const size_t open_end = boundaries.Add([this] { open_->Boundary(); });
    const size_t closed_end = boundaries.Add([this] { closed_->Boundary(); });
    steps.Run(rounds_);
    boundaries.Run(rounds_);
    const double answer = AnswerSeconds();
    ends = true;
    visitors.join();
    if (!fault.empty()) return report_.LeftOut(name, fault);
    const double step = steps.SecondsOf(without).median;
    const double added = boundaries.SecondsOf(open_end).median - boundaries.SecondsOf(closed_end).median;
    report_.Ratio(name + "_added_over_step", Exactly(std::max(0.0, added) / step), Style::kPercent, AtMost(0.001), who);
    report_.Ratio(name + "_steps_over_none", steps.Ratio(with, without), Style::kPercent, {}, "in turns");
    report_.Figure(name + "_step_us", Scaled(steps.SecondsOf(without), 1e6), "us");
    report_.Figure(name + "_boundary_ns", Scaled(boundaries.SecondsOf(open_end), 1e9), "ns", {}, "the step boundary");
    report_.Figure(name + "_answer_ms", Exactly(answer * 1e3), "ms", {}, "until somebody else has his status");
  }

  double AnswerSeconds() const {
    const double begin = Seconds(Clock::kWall);
    if (const auto reply = http::Client(path_).Get("/v1/status"); !reply.ok() || reply.value().status != 200)
      throw std::runtime_error("the control socket does not answer");
    return Seconds(Clock::kWall) - begin;
  }

  const int rounds_;
  const std::string stepwatchd_;  // the program; empty: none
  const Directory directory_;
  std::unique_ptr<IdleJob> closed_, open_;
  std::string path_;
  Report report_;
};

}  // namespace
}  // namespace stepwatch::bench

int main(int argc, char** argv) try {
  int rounds = 101;
  std::string json, stepwatchd;
  CLI::App app("What the control socket of a monitor costs a training step, as ratios within one run.");
  app.add_option("--rounds", rounds, "how often each is timed")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--stepwatchd", stepwatchd, "this program watches, hangs, or is absent, in place of visitors");
  app.add_option("--json", json, "write the ratios to this file");
  CLI11_PARSE(app, argc, argv);
  stepwatch::bench::Bench bench(rounds, stepwatchd);
  bench.Run();
  return bench.WriteJson(json) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "control_socket_bench: %s\n", error.what());
  return 1;
}
