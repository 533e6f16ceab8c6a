// The monitor of one training process: its life. What is called inside a step stands in recorder.h, the watching of
// CUDA graphs in graph_recorder.h, and what a plan switches on and off in hook_table.h.
//
// The step thread is the trainer's own. It records during a step, calls EndStep at its end, and is never made to wait,
// to format, to open files or to lock: records go through a ring to the drain thread, edits are read and compiled on
// the loop thread, and a finished plan is picked up at EndStep. A fault of the monitor degrades the monitor and is
// reported as an event; no call throws.
//
// In a forked child every call does nothing, and the destructor leaves files and threads of the parent alone.
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

// What one process is doing about the config, for people and for `rehearse`. FAILED: nothing runs, and an edit waits
// that could not be taken over (MonitorStatus::fault).
enum class RunState : uint8_t { kOff, kIdle, kPreparing, kArmed, kCollecting, kDraining, kFailed };
const char* RunStateName(RunState state);  // "OFF", "IDLE", ...

// What Refresh found. kFailed: the look itself failed, and is repeated until it succeeds.
enum class RefreshOutcome : uint8_t { kUnchanged, kArmed, kStopping, kRefused, kMissing, kTimedOut, kFailed };

struct MonitorStatus {
  RunState state = RunState::kIdle;
  PlanId plan_id = 0;            // the plan in force, 0: none
  int64_t step = 0;              // the step that runs now
  int64_t collected = 0;         // collected steps of the plan in force
  bool collecting_step = false;  // the step that runs now is collected
  bool paused = false;           // the plan in force collects nothing until it is resumed
  std::string output_dir;        // of this run and rank; empty until the first plan
  std::string fault;             // why the newest edit is not taken over, although it is tried; empty: it is
  // Of a job with a store:
  int64_t proposed_step = -1;        // at which an edit is to be applied that the ranks have not decided on; -1: none
  bool in_doubt = false;             // the running step began without the job's decision
  int64_t decision_waits = 0;        // boundaries at which the step thread waited for a decision
  int64_t decision_timeouts = 0;     // of those, in vain
  double decision_wait_seconds = 0;  // in all
};

// What the program may change in the config of the plan that runs, until the next edit of the file.
struct Amendment {
  // Statistics by the names of the key `ops`: what is unknown or there twice is left out, with a warning, `norm` takes
  // the place of none, and shape and dtype come last unless they are placed.
  std::optional<std::vector<std::string>> ops;
  // As the key: without `targets` every module is selected.
  std::optional<bool> xy_distribution;
};

// A record of a site's last step, as Monitor::Latest gives it.
struct LatestValue {
  std::string name;  // PlannedSite::name; element and call are in the record
  int chunk = 0;
  Record record;
  std::string tag;  // RecordTag for this rank: "0:fc.input:0/rank0/actv"
};

// Reads and checks a config file, without a monitor: Ok if a monitor would take it. Any thread.
Status CheckConfig(const std::string& path);
// The same for the text of one.
Status CheckConfigText(const std::string& text);

// The life of a monitor, by its calls:
//   1. Create reads the config file and starts the threads.
//   2. Attach says what can be watched, PrepareDevice where its tensors lie. Both come again when the model has grown.
//   3. In every step the hooks of the model use recorder(), and graphs() for CUDA graphs.
//   4. EndStep ends every step, and changes plans: to what an edit of the file or Amend asks for.
//   5. Close ends the window, writes the rows that are left and stops the threads.
class Monitor {
 public:
  // Static mode: reads and checks the config file now; a file that is missing, unreadable or refused is the error.
  // Dynamic mode: such a file is an event, and the monitor waits for a good one.
  static Result<std::unique_ptr<Monitor>> Create(Options options);
  // Closes with a deadline of 5 s.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Says what can be watched, and looks at the config file in the caller's thread: in static mode the plan holds from
  // the first step, in dynamic mode from the end of the first step. `hooks` must outlive the monitor or its Close.
  // When it is called again, for a model that has grown, the plan is compiled anew and the window goes on. In mid-step
  // the plan in force stays for this step, on `hooks` as far as its sites are in `sites`, and the new one begins with
  // the next.
  Status Attach(SiteIndex sites, HookTable* hooks);

  // Step thread, between steps: changes the plan in force, and one that is armed, without an edit of the file. The
  // window goes on, with its start step and its count, under a new plan id, from the step about to begin; called in
  // mid-step, when something was observed, from the next. The next edit of the file replaces all of it. It has
  // no effect if nothing is in force or armed, except in static mode before the first Attach, where it holds for the
  // plan to come. In a job with a store each rank amends its own plan in force; edits that the ranks agree on stay as
  // they are in the file.
  Status Amend(const Amendment& amendment);

  // Allocates now, in the caller's thread, what measuring tensors of this device needs, and not with the first of them,
  // in the middle of a step or of a graph's capture (tens of milliseconds for a CUDA device). If there is no engine for
  // the device, an event says why.
  void PrepareDevice(Device device) noexcept;

  // --- step thread; autograd threads inside the step may use both recorders ---

  Recorder& recorder() noexcept { return *recorder_; }
  GraphRecorder& graphs() noexcept { return *graphs_; }
  // The step is over (after optimizer.step): closes its frame, and swaps plans if one is armed.
  void EndStep() noexcept;
  int64_t step() const noexcept;
  // Numbers of a step: of the one in progress, or of `step`, which may be over (at its end belongs what is known only
  // after optimizer.step). Read by whoever watches the run (docs/operations/pulse.md). Any thread, inside a step, too:
  // a few stores each, no lock, no allocation. A name that is too long or reserved, and what finds the queue full, is
  // dropped and counted.
  void Report(const ReportedNumber* numbers, size_t count, int64_t step = kStepInProgress) noexcept;
  void Report(std::initializer_list<ReportedNumber> numbers, int64_t step = kStepInProgress) noexcept {
    Report(numbers.begin(), numbers.size(), step);
  }
  // From now on the run is in this phase; PhaseScope does it for a block. `expires`: how long kPaused protects the run
  // from being taken for stuck, 0: until the phase changes. Any thread, likewise. Returns the phase that was.
  PhaseMark SetPhase(Phase phase, std::chrono::milliseconds expires = std::chrono::milliseconds(0)) noexcept;
  // The phase is again what it was, unless that has expired meanwhile: then it is kTrain.
  void RestorePhase(PhaseMark phase) noexcept;
  // A checkpoint of this step is complete. Any thread, likewise.
  void ReportCheckpoint(int64_t step) noexcept;
  // The process has got this signal; one whose action is the default, to end it, ends the run. Async-signal-safe.
  void ReportSignal(int number) noexcept;
  // Any thread; not from a signal handler. Takes a lock that the step thread never takes. One that ends the run makes
  // it end with kError when it is closed.
  void ReportException(const ExceptionReport& exception) noexcept;
  // The process is about to end so, perhaps without Close, which says kOk where nothing was said before. The first
  // word holds. Threads as above.
  void ReportEnd(RunEnd end) noexcept;

  // Returns for every site of `kind` the records of the last step in which it was seen, the running step included: each
  // micro-step, element and call, in the order in which they were produced, sites in the order of the plan. Waits for
  // the drain thread, and for the devices that still owe numbers, at most until the timeout; what is missing then is
  // left out. Records of earlier steps are kept from the first call on, or from the beginning with
  // Options::keep_latest; a new plan begins with none.
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  // --- any thread but the loop's ---

  // Looks at the config file now, skips the quiet time but not the stability check, and returns when what it found is
  // refused, armed, stopping or unchanged (also if the watcher had found it a moment before). An armed plan is applied
  // at the next EndStep.
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  // Waits until the rows of all steps that are over are in their files, for whoever reads them while the run goes on.
  // False: not in time.
  bool Flush(std::chrono::milliseconds timeout);
  MonitorStatus GetStatus() const;
  // Has the loop tell the event by Options::on_event, as it tells its own. Waits for nobody, so that a front end can
  // report from inside a step. While the loop is busy for long, events are only counted.
  void Report(Event event) noexcept;
  // Has the model's structure for print_struct written to {base}/module_struct/rank{R}/module_struct.json. Refresh
  // returns after it.
  void PublishStructure(std::vector<ModuleStructure> modules);
  // Has the rows of stack_info, (module such as "0:fc", from where it was called), written to stack_info.csv in
  // the run's directory. A file that is there already stays as it is.
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows);

  // --- step thread, outside of any step's work ---

  // Ends the window, drains, writes back, stops the threads, all within the timeout. After it every call does nothing,
  // and no function of Options is called any more, unless on_event hangs in a call that had begun. Records that are not
  // written shortly before the deadline are dropped and counted. kTimedOut: that was so, or a sink, a file system or
  // on_event hangs; its thread is left behind with all that it uses.
  Status Close(std::chrono::milliseconds timeout);

  class Impl;  // of controller/api

 private:
  explicit Monitor(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  Recorder* const recorder_;     // owned by impl_
  GraphRecorder* const graphs_;  // likewise
};

}  // namespace stepwatch
