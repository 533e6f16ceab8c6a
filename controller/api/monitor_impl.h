// The parts of a Monitor, and what passes between them that belongs to none of them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "controller/api/event_door.h"
#include "controller/api/event_queue.h"
#include "controller/api/loop_thread.h"
#include "controller/reload/reloader.h"
#include "src/drain/drain.h"
#include "src/drain/status_board.h"
#include "src/stats/engine.h"
#include "src/step/data_plane.h"
#include "src/step/wake_up.h"
#include "stepwatch/monitor.h"

namespace stepwatch {

class Monitor::Impl {
 public:
  // For work on the loop that is bounded by local file I/O.
  static constexpr std::chrono::milliseconds kLoopCallTimeout{30000};

  // `options` with its defaults filled in. Nothing runs yet.
  Impl(Options options, bool dynamic);
  void Start();

  // Loop thread, or before it runs. What is told has changed what is published.
  void Tell(Event event);
  // Any thread: has the loop tell the event. Waits for nobody.
  void Report(Event event) noexcept;
  // Loop thread: takes what the drain has posted.
  void OnBoard();
  // Loop thread: state and directory for other threads.
  void PublishState();

  // Asks the loop until it says yes; false: not in time.
  bool Await(bool (reload::Reloader::*question)() const, std::chrono::steady_clock::time_point deadline);
  // In static mode the output directory is fixed at once, so the job's run id is waited for.
  void AwaitRunId();
  // Step thread: has the loop change what runs, and applies it if no step is under way. `change` outlives a call that
  // has given up.
  Status ChangePlan(std::function<Status()> change);
  // Any thread.
  RunState State() const;

  const Options options_;
  const bool dynamic_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  api::EventDoor door_;
  api::EventQueue reported_;
  api::LoopThread loop_;
  step::WakeUp wake_up_;
  drain::StatusBoard board_;
  stats::Engine engine_;
  step::DataPlane data_plane_;
  drain::Drain drain_;
  reload::Reloader reloader_;
  std::atomic<bool> closed_{true};  // until the loop runs, and after Close
  bool hung_ = false;
  bool knows_run_id_ = false;  // or need not: asked once
  std::atomic<RunState> loop_state_{RunState::kOff};
  mutable std::mutex mutex_;
  std::string output_dir_;  // guarded by mutex_

 private:
  void TellFault(const char* what);
};

}  // namespace stepwatch
