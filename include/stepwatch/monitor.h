// The monitor of one training process. recorder.h has the calls inside a step, graph_recorder.h those for CUDA graphs,
// and hook_table.h the interface through which plans switch hooks.
//
// The step thread is the trainer's own. It records during a step and calls EndStep at its end. It never formats, opens
// files or locks, and waits only for a decision of the ranks (Options::decision_wait). Records go through a ring to the
// drain thread, the loop thread reads and compiles edits, and EndStep applies a finished plan. A fault of the monitor
// degrades the monitor and is reported as an event; no call throws.
//
// In a forked child calls do nothing, and the destructor leaves files and threads of the parent alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/event.h"
#include "stepwatch/module_structure.h"
#include "stepwatch/options.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/report.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

class GraphRecorder;
class HookTable;
class Recorder;

// State of one process with regard to the config, for people and for `rehearse`. kFailed: no plan runs, and an edit
// waits that could not be applied (MonitorStatus::fault).
enum class RunState : uint8_t { kOff, kIdle, kPreparing, kArmed, kCollecting, kDraining, kFailed };
const char* RunStateName(RunState state);  // "OFF", "IDLE", ...

// Result of Refresh. kFailed: the look itself failed; the monitor repeats it until it succeeds.
enum class RefreshOutcome : uint8_t { kUnchanged, kArmed, kStopping, kRefused, kMissing, kTimedOut, kFailed };

struct MonitorStatus {
  RunState state = RunState::kIdle;
  PlanId plan_id = 0;            // the plan in force; 0: no plan
  int64_t step = 0;              // the running step
  int64_t collected = 0;         // collected steps of the plan in force
  bool collecting_step = false;  // the running step is collected
  bool paused = false;           // the plan in force collects nothing until it is resumed
  std::string output_dir;        // directory of this run and rank; empty until the first plan
  std::string fault;             // why the newest edit is not applied yet, although it is retried; empty: no fault
  // For jobs with a store:
  int64_t proposed_step = -1;        // step proposed for an edit that the ranks have not decided on; -1: no edit
  bool in_doubt = false;             // the running step began without the decision of the ranks
  int64_t decision_waits = 0;        // boundaries at which the step thread waited for a decision
  int64_t decision_timeouts = 0;     // waits that ended without a decision
  double decision_wait_seconds = 0;  // total over all waits
};

// Changes by the program to the config of the running plan. They hold until the next edit of the file.
struct Amendment {
  // Statistics, named as in the key `ops`. Unknown and repeated names are left out with a warning; `norm` replaces an
  // empty list; shape and dtype come last unless the list places them.
  std::optional<std::vector<std::string>> ops;
  // Same as the key: without `targets` every module is selected.
  std::optional<bool> xy_distribution;
};

// A record of a site's last step, returned by Monitor::Latest.
struct LatestValue {
  std::string name;  // PlannedSite::name; the record has element and call
  int chunk = 0;
  Record record;
  std::string tag;  // RecordTag for this rank: "0:fc.input:0/rank0/actv"
};

// Reads and checks a config file without a monitor. Ok if a monitor would accept it. Any thread.
Status CheckConfig(const std::string& path);
// The same for the text of a config file.
Status CheckConfigText(const std::string& text);

// Life of a monitor:
//   1. Create starts the threads; in static mode it reads the config file.
//   2. Attach declares what can be watched, PrepareDevice the devices of its tensors. Repeat both when the model grows.
//   3. In every step the hooks of the model use recorder(), and graphs() for CUDA graphs.
//   4. EndStep ends every step and changes plans, after an edit of the file or a call of Amend.
//   5. Close ends the window, writes the remaining rows and stops the threads.
class Monitor {
 public:
  // Static mode: reads and checks the config file now; returns an error if it is missing, unreadable or refused.
  // Dynamic mode: Attach reads the file. A bad file is an event, and the monitor waits for a good one.
  // Both modes: kInvalid for unusable limits, kExhausted without memory, threads or descriptors.
  static Result<std::unique_ptr<Monitor>> Create(Options options);
  // Calls Close with a timeout of 5 s.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Step thread. Declares what can be watched and waits for the first look at the config file: in static mode the plan
  // holds from the first step, in dynamic mode from the end of the first step. `hooks` must outlive the monitor or its
  // Close. A repeated call, for a model that has grown, compiles the plan again and keeps the window. In mid-step the
  // plan in force stays for this step, on `hooks` and for those of its sites that are in `sites`; the new plan begins
  // with the next step. Blocks at most 30 s, plus run_id_wait. kTimedOut: the file system hangs; the config is applied
  // as soon as it can be read. kUnavailable: the monitor is closed.
  Status Attach(SiteIndex sites, HookTable* hooks);

  // Step thread, between steps. Changes the plan in force and an armed plan without an edit of the file. The window
  // keeps its start step and its count; its new plan id holds from the step about to begin, or, if this step already
  // has observations, from the next. The next edit of the file replaces the change. A change beyond Options::limits is
  // refused with the event kLimited.
  // No effect if no plan is in force or armed, except in static mode before the first Attach: there the change holds
  // for the first plan. In a job with a store each rank changes its own plan in force only; edits that the ranks agree
  // on stay as they are in the file.
  Status Amend(const Amendment& amendment);

  // Allocates now, on the calling thread, the memory for measuring tensors of this device, instead of with the first
  // tensor, in mid-step or in a graph capture (tens of milliseconds for a CUDA device). If the device has no engine, an
  // event has the reason.
  void PrepareDevice(Device device) noexcept;

  // --- step thread; autograd threads inside the step may use both recorders ---

  Recorder& recorder() noexcept { return *recorder_; }
  GraphRecorder& graphs() noexcept { return *graphs_; }
  // Ends the step (call it after optimizer.step): closes its frame, and swaps plans if one is armed.
  void EndStep() noexcept;
  int64_t step() const noexcept;
  // Reports numbers of a step: the running one, or `step`, which may be over (for numbers that are known only after
  // optimizer.step). Programs that watch the run read them (docs/formats/beats.md). Any thread, also inside a step:
  // a few stores per number, no lock, no allocation. Empty, too long and reserved names, and numbers beyond a full
  // queue, are dropped and counted. Without a control socket (Options::control_socket) numbers and checkpoints are
  // discarded.
  void Report(const ReportedNumber* numbers, size_t count, int64_t step = kStepInProgress) noexcept;
  void Report(std::initializer_list<ReportedNumber> numbers, int64_t step = kStepInProgress) noexcept {
    Report(numbers.begin(), numbers.size(), step);
  }
  // Sets the phase of the run and returns the previous one; PhaseScope sets it for a block. `expires`: how long kPaused
  // keeps the run from being reported as stuck; 0: until the phase changes, for kPaused at most one hour. Any thread,
  // no lock, no allocation.
  PhaseMark SetPhase(Phase phase, std::chrono::milliseconds expires = std::chrono::milliseconds(0)) noexcept;
  // Restores a phase. If that phase has expired meanwhile, sets kTrain.
  void RestorePhase(PhaseMark phase) noexcept;
  // Begins a part of the running step and returns the previous one, to be restored; PartScope does both. Any thread, no
  // lock, no allocation. TorchMonitor sets kOptimizer itself, and in collected steps kForward and
  // kBackward.
  StepPart EnterPart(StepPart part) noexcept;
  // As Report, for parts of a step that a front end has measured on a device. The first number that the program reports
  // under a key ends measured ones of that key.
  void ReportMeasured(const ReportedNumber* numbers, size_t count, int64_t step) noexcept;
  // Reports that the checkpoint of this step is complete. Any thread, no lock, no allocation.
  void ReportCheckpoint(int64_t step) noexcept;
  // Reports a signal that the process received. If its action is the default and ends the process, the run ends with
  // kSignal. Async-signal-safe.
  void ReportSignal(int number) noexcept;
  // Reports an exception. Any thread, but not from a signal handler; locks a mutex that the step thread never locks.
  // After an exception with ends_run Close ends the run with kError.
  void ReportException(const ExceptionReport& exception) noexcept;
  // Reports how the process is about to end, for a process that may not reach Close. The first report holds; without
  // one Close reports kOk. Threads as for ReportException.
  void ReportEnd(RunEnd end) noexcept;

  // Returns, for every site of `kind`, the records of the last step that saw the site, the running step included: each
  // micro-step, element and call in order of production, sites in the order of the plan. Waits for the drain thread and
  // for pending results of devices, at most until the timeout; records that are missing then are left out. Records of
  // earlier steps are kept from the first call on, or from the beginning with Options::keep_latest; a new plan begins
  // with no records.
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  // --- any thread but the loop's ---

  // Looks at the config file now, without the quiet time but with the stability check. Returns when the bytes found are
  // refused, armed, stopping or unchanged (also if the watcher found them a moment before), else kTimedOut. The next
  // EndStep applies an armed plan.
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  // Waits until the rows of all finished steps are in their files, for readers of a running job. False: not within the
  // timeout.
  bool Flush(std::chrono::milliseconds timeout);
  MonitorStatus GetStatus() const;
  // Passes the event to Options::on_event on the loop thread, like the monitor's own events. Never waits, so a front
  // end can call it inside a step. While 256 events wait for the loop, further ones are dropped and counted.
  void Report(Event event) noexcept;
  // Writes the model's structure for print_struct to {base}/module_struct/rank{R}/module_struct.json, on a thread of
  // the monitor. Refresh returns after the write.
  void PublishStructure(std::vector<ModuleStructure> modules);
  // Writes the rows of stack_info, (module such as "0:fc", call stack), to stack_info.csv in the run's directory, on a
  // thread of the monitor. An existing file stays as it is.
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows);

  // --- step thread, between steps ---

  // Ends the window, drains, writes back and stops the threads, all within the timeout. Later calls do nothing, and no
  // function of Options is called any more, unless on_event hangs in an earlier call. Records that are not written
  // shortly before the deadline are dropped and counted. kTimedOut: records were dropped, or a sink, a file system or
  // on_event hangs; the hanging thread is abandoned with all that it uses.
  Status Close(std::chrono::milliseconds timeout);

  class Impl;  // in controller/api

 private:
  explicit Monitor(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  Recorder* const recorder_;     // owned by impl_
  GraphRecorder* const graphs_;  // owned by impl_
};

}  // namespace stepwatch
