// The parts of a Monitor, and the communication between them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "controller/api/control_socket_settings.h"
#include "controller/api/event_outlet.h"
#include "controller/api/event_queue.h"
#include "controller/api/job_ranks.h"
#include "controller/api/loop_thread.h"
#include "controller/api/monitor_job.h"
#include "controller/control_socket/server.h"
#include "controller/reload/reloader.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/base/mutex.h"
#include "src/drain/drain.h"
#include "src/drain/status_board.h"
#include "src/output/run_storage.h"
#include "src/stats/engine.h"
#include "src/step/data_plane.h"
#include "src/step/wake_up.h"
#include "stepwatch/monitor.h"

namespace stepwatch {

class Monitor::Impl {
 public:
  // Time limit of a program's call for the loop, and for files that the loop waits for.
  static constexpr std::chrono::milliseconds kLoopCallTimeout{30000};

  // Monitor::Create on the given file system, which must outlive any thread that hangs in it.
  static Result<std::unique_ptr<Monitor>> CreateMonitor(Options options, base::FileSystem& files);

  // `options` have their defaults filled in, and the limits in force. The constructor starts no thread.
  Impl(Options options, bool dynamic, std::unique_ptr<output::RunStorage> storage, base::FileSystem& files);
  void Start();

  // Loop thread, or before it runs. Call it after an event has changed the published state.
  void Emit(Event event);
  // Any thread: posts the event to the loop. Does not wait.
  void Report(Event event) noexcept;
  // Loop thread: processes the reports of the drain.
  void OnBoard();
  // Loop thread: publishes state and directory for other threads.
  void PublishState();

  // Polls the loop until `question` returns true; false at the deadline.
  bool Await(bool (reload::Reloader::*question)() const, std::chrono::steady_clock::time_point deadline);
  // Waits for the job's run id, as static mode fixes the output directory at once.
  void AwaitRunId();
  // Step thread: has the loop prepare a change of the plan, and applies it at once unless a step is in progress.
  // `change` outlives a call that has timed out. With `awaits_look`, the result of the first read of the config is part
  // of the change.
  Status ChangePlan(std::function<reload::Replanned()> change, bool awaits_look = false);
  // Any thread.
  RunState State() const;
  MonitorStatus GetStatus() const;

  // Step thread. A failure is reported as a note event.
  void TestServer() noexcept;
  void NameModules(const SiteIndex& sites) noexcept;

  const Options options_;
  const bool dynamic_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  base::FileSystem& files_;
  const std::unique_ptr<output::RunStorage> storage_;
  base::IoThread io_;                          // reads the config and writes it back
  base::IoThread output_io_{"stepwatch-out"};  // writes manifest.json and other small files of the run
  api::EventOutlet control_socket_;
  api::EventQueue reported_;
  api::LoopThread loop_;
  step::WakeUp wake_up_;
  drain::StatusBoard board_;
  stats::Engine engine_;
  step::DataPlane data_plane_;
  drain::Drain drain_;
  api::JobRanks ranks_;
  reload::Reloader reloader_;
  std::atomic<bool> closed_{true};  // until the loop runs, and after Close
  bool hung_ = false;
  bool knows_run_id_ = false;  // or does not need it; determined once
  bool awaited_look_ = false;  // the first Attach has waited for the first read of the config
  std::atomic<RunState> loop_state_{RunState::kOff};
  mutable base::Mutex mutex_;
  std::string output_dir_ STEPWATCH_GUARDED_BY(mutex_);
  std::string fault_ STEPWATCH_GUARDED_BY(mutex_);
  const api::ControlSocketSettings control_socket_settings_;
  const std::shared_ptr<api::MonitorJob> job_;            // null: no control socket and no other ranks to answer
  const std::unique_ptr<control_socket::Server> server_;  // null: no control socket
  bool opened_socket_ = false;
  std::atomic<RunEnd> end_{RunEnd::kOk};  // reported by Close

 private:
  void ReportFault(const char* what);
  std::unique_ptr<control_socket::Server> MakeServer();
  void OpenPulse();
  // Any thread.
  void ReportNote(std::string message);
  void PublishView() noexcept;
};

}  // namespace stepwatch
