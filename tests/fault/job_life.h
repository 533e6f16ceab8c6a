// The life of a job as a script: attach, an edit, a window, its write-back, questions at the control socket, an edit
// once more and the end. It plays in a process of its own, so that whatever a fault does there is seen from outside.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "src/sockets/runtime_directory.h"
#include "tests/api/job.h"
#include "tests/hooked_files.h"
#include "tests/variable.h"

namespace stepwatch::testing {

// One call fails: the `number`-th of this name, from 0 on. Or it hangs: the `number`-th of the thread that reads and
// writes the config.
struct CallFault {
  std::string name;
  int number = -1;
  int error_number = 0;
};
constexpr char kHangs[] = "(of the config's thread)";

class JobLife {
 public:
  explicit JobLife(CallFault fault) : fault_(std::move(fault)) {
    files_.before = [this](std::string_view call) { return BeforeCall(call); };
    job_.options.use_inotify = true;
    job_.options.look_interval = std::chrono::milliseconds(200);
  }

  // Returns what went wrong; empty: all is well.
  std::string Play() {
    std::thread asker;
    if (fault_.name == kHangs) asker = std::thread([this] { AskInTheHang(); });
    std::string trouble = Live();
    Release();
    if (asker.joinable()) asker.join();
    if (trouble.empty()) trouble = trouble_in_the_hang_;
    if (trouble.empty()) return trouble;
    for (const Event& event : job_.Events()) trouble += "\n    " + EventText(event);
    return trouble;
  }
  std::map<std::string, int> calls() const { return calls_; }

 private:
  static constexpr std::chrono::seconds kDeadline{30};

  int BeforeCall(std::string_view call) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int number = calls_[std::string(call)]++;
    if (call == fault_.name && number == fault_.number) return fault_.error_number;
    char thread[16] = "";
    (void)::pthread_getname_np(::pthread_self(), thread, sizeof thread);
    if (thread != std::string_view("stepwatch-io") || calls_[kHangs]++ != fault_.number || fault_.name != kHangs)
      return 0;
    is_held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_released_; });
    return 0;
  }
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

  // While the call hangs the control socket answers, and steps end; a trainer waits in Attach and Close only.
  void AskInTheHang() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return is_held_ || is_released_; });
    }
    if (!is_closing_) trouble_in_the_hang_ = AskAllQuestions();
    const int64_t step = steps_;
    if (!Eventually([&] { return !is_attached_ || is_closing_ || steps_ > step + 1; }))
      trouble_in_the_hang_ = "in the hang no step ends";
    Release();
  }
  std::string AskAllQuestions() const {
    std::string path;
    if (!Eventually([&] { return !(path = SocketPath()).empty() || is_closing_; }))
      return "there is no control socket in the hang";
    for (const char* target : {"/v1/doctor", "/v1/ranks", "/metrics", "/v1/latest/actv", "/v1/status"}) {
      const auto reply = http::Client(path).Get(target);
      if (!is_closing_ && (!reply.ok() || reply.value().status != 200))
        return std::string("in the hang nobody answers ") + target;
    }
    return "";
  }
  std::string SocketPath() const {
    for (const control_socket::FoundJob& job :
         control_socket::FindJobs({.directories = sockets::RuntimeDirectories(::geteuid())}))
      if (job.pid == ::getpid() && !job.status.empty()) return job.path;
    return "";
  }

  std::string Live() {
    auto created = Monitor::Impl::CreateMonitor(job_.options, files_);
    if (!created.ok()) return "no monitor: " + created.status().ToString();
    job_.monitor = std::move(created).value();
    if (const Status attached = job_.Attach(); !attached.ok()) return "not attached: " + attached.ToString();
    is_attached_ = true;
    job_.TrainSteps(2);
    if (!PlayWindow(1)) return "the edit was not collected";
    if (!AskControlSocket()) return "the control socket does not answer";
    if (!PlayWindow(2)) return "the next good edit was not collected";
    if (const std::string trouble = AwaitRecovery(); !trouble.empty()) return trouble;
    is_closing_ = true;
    const Status closed = job_.monitor->Close(kDeadline);
    const std::string directory = job_.monitor->GetStatus().output_dir;
    job_.monitor.reset();
    return closed.ok() ? CheckRows(directory) : "not closed: " + closed.ToString();
  }

  bool IsTroubled() const { return job_.Count(EventKind::kDegraded) != job_.Count(EventKind::kRecovered); }
  // A file that could not be closed is a trouble until the next one takes rows.
  std::string AwaitRecovery() {
    if (job_.Count(EventKind::kRefused) != 0) return "a good edit was refused";
    if (job_.Count(EventKind::kDegraded) > 1) return "the trouble was reported more than once";
    if (IsTroubled() && job_.Events(EventKind::kDegraded)[0].message.find("cannot close ") == 0 &&
        !PlayWindow(++windows_))
      return "the edit after that was not collected";
    return TrainUntil([&] { return !IsTroubled(); }) ? "" : "the end of the trouble was not reported";
  }
  std::string CheckRows(const std::string& directory) const {
    const auto drained = job_.Events(EventKind::kDrained);
    if (drained.size() != windows_) return "not as many accounts as windows";
    for (const Event& event : drained)
      if (!event.ledger.balanced() || event.ledger.dropped_total() != 0 || event.collected != 2) return "rows are lost";
    const std::string manifest = Contents(directory + "/manifest.json");
    size_t ended = 0;
    for (size_t at = 0; (at = manifest.find("\"state\": \"drained\"", at)) != std::string::npos; ++at) ++ended;
    return ended == windows_ ? "" : "the manifest does not have the end of each plan:\n" + manifest;
  }

  // Trains until the condition holds.
  bool TrainUntil(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      job_.TrainStep();
      ++steps_;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // A window of two steps, to the end of its write-back.
  bool PlayWindow(size_t number) {
    const std::string format = number == 2 ? "tensorboard" : "csv";
    job_.Save(ConfigText({.collect_times = 2},
                         ", \"format\": \"" + format + "\", \"step_count_per_record\": " + std::to_string(number)));
    return TrainUntil([&] { return job_.Count(EventKind::kWroteBack) == number; });
  }

  bool AskControlSocket() {
    return TrainUntil([this] { return !SocketPath().empty(); });
  }

  const CallFault fault_;
  std::atomic<int64_t> steps_{0};
  std::atomic<bool> is_attached_{false}, is_closing_{false};
  std::string trouble_in_the_hang_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false, is_released_ = false;
  std::map<std::string, int> calls_;
  HookedFiles files_;
  TemporaryDirectory directory_{PlaceInMemory()};
  const std::string runtime_ = directory_ / "run";
  const Variable variable_{"STEPWATCH_RUNTIME_DIR", runtime_};
  Job job_{ConfigText(Off())};
  size_t windows_ = 2;
};

}  // namespace stepwatch::testing
