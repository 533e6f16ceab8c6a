// Watches the GPUs of this host: samples and events become lines for the detectors, and metrics.
//
// Lives on the loop's thread. Calls of the driver are on threads of their own: one that hangs costs its thread, and the
// metrics report for how long it has hung.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "operations/gpu/gpu_lines.h"
#include "operations/gpu/gpu_metrics.h"
#include "operations/gpu/gpu_reader.h"
#include "operations/gpu/kernel_log.h"
#include "operations/gpu/xid_counts.h"
#include "operations/gpu/xid_queue.h"
#include "operations/vocabulary/known_process.h"
#include "operations/vocabulary/line.h"
#include "src/base/file.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class GpuWatch {
 public:
  struct Options {
    std::string library = kNvmlLibrary;
    std::chrono::milliseconds interval{5000};
    base::FileSystem* files = &base::FileSystem::Real();
    std::function<double()> wall;                               // seconds
    std::function<std::vector<KnownProcess>()> processes;       // of the runs of this host
    std::function<void(Line)> report;                           // called from the loop
    std::function<void(const std::string& note)> on_note = {};  // for the log: a GPU comes, goes or hangs
  };

  GpuWatch(boost::asio::io_context& loop, Options options);
  ~GpuWatch() { Stop(); }
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  void Start() { Tick(); }
  // No line is reported afterwards.
  void Stop();
  std::vector<http::MetricFamily> Families() const { return GpuFamilies(Now()); }
  GpuStatus Now() const;

 private:
  // The place through which the thread of samples passes its session on. The loop never owns a session, because the
  // last owner shuts the library down.
  struct Passed;
  // An Xid that waits for the kernel's record of it.
  struct Undecided {
    std::string uuid;
    int64_t code = 0;
    int reads_left = 0;  // of the kernel's log
  };

  void Tick();
  void Sample();
  void OnSample(GpuSample sample);
  void AwaitEvents();
  void ReadHost();
  void OnKernelLog(const std::vector<KernelXid>& xids, bool is_readable);
  void ReportXid(const std::string& uuid, int64_t code);
  void OnXid(XidSource source, const std::string& uuid, int64_t code, bool is_harmless);
  void Note(const std::string& note);

  const Options options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<Passed> passed_;
  const std::shared_ptr<const base::UniqueFd> stop_ =
      std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::shared_ptr<GpuReader> reader_;
  std::shared_ptr<std::unique_ptr<XidQueue>> queue_ = std::make_shared<std::unique_ptr<XidQueue>>();
  std::shared_ptr<KernelLog> log_;
  base::IoThread samples_{"stepwatchd-gpu"};
  base::IoThread events_{"stepwatchd-xid"};
  base::IoThread host_{"stepwatchd-kmsg"};
  watch::Timer timer_, events_timer_;
  int64_t ticks_ = 0;
  bool has_noted_hang_ = false;
  bool awaits_events_ = false;
  bool reads_host_ = false;
  bool is_log_readable_ = false;
  std::vector<Undecided> undecided_;
  std::optional<double> sampling_since_;  // monotonic
  std::optional<double> sampled_at_;      // likewise
  GpuSample sample_;
  std::string trouble_;
  GpuUsers users_;
  GpuLines lines_;
  XidCounts xids_;
  std::optional<bool> is_fabric_manager_active_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // null: stopped
};

}  // namespace stepwatch::operations
