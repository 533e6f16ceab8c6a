// Interface between a control socket and its job: values in, values out. The API implements it for a monitor; tests use
// fakes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/plan_preview.h"
#include "src/output/history.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"

namespace stepwatch::control_socket {

// A plan that is armed or in force.
struct PlanFacts {
  PlanId plan_id = 0;
  std::string config_sha256;
  int64_t collect_times = 0;
  int64_t step_interval = 1;  // from the config, or a longer one chosen to keep its budget
  int64_t at_step = -1;       // first step that it may collect; -1: not known yet
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // of one collected step
  int64_t queue_bytes = 0;    // memory of its ring
};

// Limits on every config (Options::limits, the environment), and their use. 0 or empty: no limit.
struct LimitFacts {
  std::string output_root;
  uint64_t bytes_max = 0;
  uint64_t bytes_used = 0;  // counted only if there is a limit
  bool bytes_used_up = false;
  int64_t rows_per_step_max = 0;
  uint64_t queue_bytes_max = 0;
  std::vector<std::string> formats;
};

// Content of the config file that was rejected.
struct RefusedEdit {
  std::string sha256;
  std::string message;
  TextPlace place;
};

// Number and total length of repeated operations.
struct Durations {
  uint64_t count = 0;
  double seconds = 0;
};

// Time that threads of the trainer have spent on measuring.
struct CostFacts {
  struct Part {
    std::string name;  // a kind, or "boundary": the ends of collected steps
    double seconds = 0;
    double per_collected = 0;  // seconds per collected step, in the newest plan with a cost of this part
  };
  int64_t collected = 0;      // steps collected
  int64_t steps = 0;          // all steps while a plan was in force
  double seconds = 0;         // spent on measuring in these steps
  double device_seconds = 0;  // the share of `seconds` spent on devices
  double step_seconds = 0;    // length of these steps, without measuring
  std::vector<Part> parts;    // parts with a cost
};

// The budget for measuring, from the config.
struct BudgetFacts {
  double percent = 0;                   // of the training time
  std::string why_not;                  // why the sampling is not reduced; empty: it is
  int64_t factor = 1;                   // multiplies the config's step_interval
  std::vector<std::string> left_out;    // kinds that are not collected
  std::optional<double> spent_percent;  // of recent steps
  uint64_t decisions = 0;
  std::string last_decision;
};

// Reads of the config file, by cause.
struct LookCounts {
  uint64_t event = 0;    // inotify reported a change
  uint64_t slow = 0;     // the periodic read
  uint64_t again = 0;    // repeats a read of a file that was still changing or could not be applied
  uint64_t refresh = 0;  // on request, or when watching starts
};

// Rejected edits, by the check that rejected them.
struct RefusalCounts {
  uint64_t syntax = 0;  // not JSON
  uint64_t value = 0;   // a key has an invalid value
  uint64_t limit = 0;   // exceeds a limit of the run
  uint64_t rank = 0;    // another rank cannot apply it
};

inline constexpr size_t kRunStateCount = static_cast<size_t>(RunState::kFailed) + 1;

// States of the ranks as known to the rank whose control socket answers for the job, without querying them.
struct RankStates {
  std::array<int, kRunStateCount> ranks{};  // by RunState
  int unknown = 0;                          // no recent answer
  double asked_unix = 0;                    // last time all were queried, system clock; 0: never
};

struct JobStatus {
  // Identity.
  int pid = 0;
  std::string run_id;       // common to all ranks, once this rank knows it
  std::string job_id;       // common to all starts of the job; empty: no id
  std::string incarnation;  // identifies this process among the ranks; empty: it shares no store with them
  int rank = 0;
  int world_size = 1;
  bool dynamic = false;
  double uptime_seconds = 0;

  // Running and armed plans.
  MonitorStatus monitor;
  std::optional<PlanFacts> plan;   // in force
  std::optional<PlanFacts> armed;  // waits for its step
  std::string running_sha256;      // of the config that is armed or in force; empty: no config is

  LimitFacts limits;

  // The config file.
  std::string config_path;
  std::string file_sha256;   // of the file at the last read; empty: not read yet
  std::string drift;         // why the content of the file is not running; empty: it is, or is about to
  std::string not_begun;     // why the file's plan is not begun, as an earlier start has done it; empty: it is
  std::string file_trouble;  // the file is missing or unreadable; empty: it is readable
  std::optional<RefusedEdit> refusal;
  std::string write_back;   // result of writing `dynamic_on` back into the file; empty: no write was due
  std::string watch_mode;   // "inotify", or "poll" with the reason; empty: the file is not watched
  std::string tcp_address;  // TCP address of the control socket; empty: TCP is closed
  int64_t segment = 1;      // of the run's files; each rotation adds one

  // Counters since the monitor was created. The ledger covers all drained plans.
  Ledger ledger;
  double measuring_seconds = 0;        // of threads of the trainer, for the same plans
  std::optional<CostFacts> cost;       // of all plans; nullopt until the first collected step has ended
  std::optional<BudgetFacts> budget;   // of the plan in force, or armed
  std::optional<double> step_seconds;  // recent mean; nullopt while no step ends
  uint64_t applied = 0;                // number of plans
  double last_applied_unix = 0;        // when the newest plan was applied, system clock; 0: never
  RefusalCounts refusals;
  uint64_t aborts = 0;        // edits for which the ranks did not agree on a step
  bool last_aborted = false;  // the newest edit was one of these
  Durations decisions;        // from the read that found an edit until its plan is armed
  Durations drains;           // from the report that a plan has ended until it is drained
  Durations swaps;            // time of the step thread to switch to a new plan
  double longest_swap_seconds = 0;
  LookCounts looks;
  uint64_t events = 0;
  PlanId written_plan_id = 0;       // the newest plan with written rows; 0: no plan
  std::optional<RankStates> ranks;  // nullopt: another rank's control socket answers for the job
};

// The result of a request to pause the collection, or to resume it.
struct PauseResult {
  enum class Outcome : uint8_t {
    kDone,
    kUnchanged,      // it already was in the requested state
    kAsked,          // the running step did not end in time; the change applies when it does
    kNotCollecting,  // no plan is in force
    kEnding,         // its window has ended or is about to, or another plan replaces it
    kRanks,          // a rank of a job that agrees on no step cannot pause alone
    kNoAnswer,       // the loop does not respond
  };
  Outcome outcome = Outcome::kNoAnswer;
  bool paused = false;   // current state
  PlanId plan_id = 0;    // in force; 0: no plan
  int64_t step = 0;      // the running step
  int64_t at_step = -1;  // kDone, kUnchanged: first step in this state; kAsked: first step of the change, if the ranks
                         // agree; -1: not known
  bool is_of_all_ranks = true;
};

// The result of a request to close the files with the rows recorded so far.
struct RotateResult {
  enum class Outcome : uint8_t {
    kDone,
    kAsked,          // the running step did not end in time, or its rows are not written yet
    kUnderWay,       // an earlier request is still in progress
    kNotCollecting,  // no plan is in force, so no file is open
    kNoAnswer,       // the loop does not respond
  };
  Outcome outcome = Outcome::kNoAnswer;
  int64_t segment = 0;     // the new segment
  int64_t last_step = -1;  // last step of the previous segment; -1: the plan had ended, and its files are closed
  std::string directory;   // of this run and rank; empty: no directory
  std::vector<std::string> files;  // that were open: names in the directory
};

struct NumberedEvent {
  uint64_t id = 0;  // from 1 in each monitor
  Event event;
  std::optional<output::EditPeer>
      peer;  // the client whose upload caused the event; nullopt: the event has another cause
};

struct EventPage {
  std::vector<NumberedEvent> events;
  uint64_t newest = 0;  // id of the newest event; 0: no events
};

struct DoctorReport {
  std::string cpu_target;
  std::vector<std::string> cpu_available;
  std::string cpu_wanted;  // from STEPWATCH_CPU_TARGET; empty: not set
  bool cpu_granted = true;
  bool cuda_built = false;
  int cuda_devices = 0;
  std::string cuda_reason;  // why CUDA tensors are not measured; empty: they are
  std::string watch_mode;
};

// A requested change of the config file.
struct ConfigChange {
  enum class Verb : uint8_t { kApply, kStart, kStop, kRollback };

  Verb verb = Verb::kApply;
  std::string text;          // kApply: the new text
  PlanId plan_id = 0;        // kRollback: restores the config of this plan; 0: the config before the one that ran last
  std::string if_match;      // require that the file has this SHA-256; empty: no condition
  bool is_override = false;  // kApply: leaves the file unchanged; its content takes effect when it next changes
  int64_t at_step = 0;       // kApply: first step of its plan; if that has begun, the next step
  output::EditPeer peer;
};

struct ChangeReport {
  enum class Outcome : uint8_t {
    kWritten,
    kUnchanged,    // the file already had this text
    kOverridden,   // the text runs, or is about to, and the file has another
    kConflict,     // the file does not have the expected content
    kEdited,       // another program saved the file at the same time; its content stays
    kInvalid,      // the text is invalid
    kUnwritable,   // the file cannot be written
    kNoOldConfig,  // kRollback: there is no earlier config
    kStatic,       // the job reads its config only once
    kNotReader,    // another process of the job reads the config
    kNotReady,     // not at present
  };
  // The verdict of the monitor on the text in the file.
  enum class Taken : uint8_t { kPending, kArmed, kRunning, kStopping, kOff, kRefused, kSuperseded };

  Outcome outcome = Outcome::kNotReady;
  std::string config_path;
  std::string method;           // how the file was written
  std::string message;          // unless kWritten, kUnchanged or kOverridden
  TextPlace place;              // kInvalid
  std::string replaced_sha256;  // of the file before; empty: it was missing or not read
  std::string sha256;           // of the new text
  PlanId old_plan_id = 0;       // kRollback: the plan of the restored config
  bool is_begun = false;        // kUnchanged: the file's plan had ended or not begun, and begins again

  // kWritten, kUnchanged, kOverridden
  Taken taken = Taken::kPending;
  PlanId plan_id = 0;  // of the plan for this text; 0: no plan
  int64_t at_step = -1;
  std::string refusal;  // kRefused
  TextPlace refusal_place;
};

// The history of a run, as stored on disk.
struct HistoryReport {
  static constexpr uint64_t kLinesMax = 10000;  // maximum in one request

  Status status;
  std::string directory;  // of the run
  output::History history;
};

// The answer of one rank of the job.
struct RankWord {
  int rank = 0;
  std::string text_untrusted;  // empty: no answer, or an unreadable one
  int64_t heard_ms = 0;        // time from question to answer
  std::string trouble;         // why the text is empty
};

struct RankWords {
  std::vector<RankWord> words;  // by rank, this rank included
  std::string alone;            // why no other rank was queried; empty: all were
};

// Lines that a process reports about itself (docs/formats/beats.md).
struct BeatPage {
  std::string run_id;
  int rank = 0;
  std::vector<std::string> lines;  // JSON objects, each on one line
  uint64_t next = 0;               // number of the last of them; `since` of the next request
  uint64_t newest = 0;             // number of the newest line; 0: no lines
  uint64_t lost = 0;               // lines between `since` and the first of these that are no longer kept
  uint64_t dropped = 0;            // numbers and ends of steps since the start that were dropped
};

// Descriptors of the pulse, valid while this object exists. Both are sealed and read-only.
struct PulseGrant {
  int page_fd = -1;  // -1: no pulse
  size_t page_bytes = 0;
  int names_fd = -1;  // table of the modules; -1: no table yet
  size_t names_bytes = 0;
  uint32_t names_generation = 0;
  std::shared_ptr<const void> keep;
};

// Thread-safe. GetStatus, EventsAfter and Tick return at once; the others may take a while, but wait for no file.
// Functions with `then` start an operation and call `then` once when it is done, on any thread, possibly within the
// call. If the monitor closes first, `then` is destroyed without a call.
class Job {
 public:
  virtual ~Job() = default;

  virtual JobStatus GetStatus() = 0;
  // The oldest kept events with a larger id, at most `count`.
  virtual EventPage EventsAfter(uint64_t id, size_t count) = 0;
  // Called once a second while the control socket is open.
  virtual void Tick() = 0;
  // The oldest kept lines with a larger number, at most `count`.
  virtual BeatPage BeatsAfter(uint64_t /*number*/, size_t /*count*/) { return {}; }
  virtual PulseGrant Pulse() { return {}; }
  // See Monitor::Latest.
  virtual std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) = 0;
  virtual DoctorReport Examine() = 0;

  // Changes the config file, and has the monitor read it at once.
  virtual void ChangeConfig(ConfigChange change, std::function<void(const ChangeReport&)> then) = 0;
  virtual void ReadHistory(std::function<void(const HistoryReport&)> then) = 0;
  // Reads the bytes with this hash from the history of the run.
  virtual void ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) = 0;
  // The effect that the config would have; nothing is armed. kUnavailable: no model is attached yet.
  virtual Result<PlanPreview> Preview(const std::string& text_untrusted) = 0;
  // Pauses or resumes the plan in force from the next step boundary; its window and count stay. In a job of ranks, all
  // do so at the step that they agree on. Waits at most `time`.
  virtual PauseResult Pause(bool pause, std::chrono::milliseconds time) = 0;
  // Closes the files with the rows up to the next step boundary; later rows go to files with new names. Waits at most
  // `time`.
  virtual RotateResult Rotate(std::chrono::milliseconds time) = 0;

  // False: requests about the whole job belong to rank 0's control socket; Forward sends them there.
  virtual bool Leads() const = 0;
  // Rank 0: queries every rank. Calls `then` once, within the call or on the control socket's worker, after at most the
  // given time.
  virtual void AskRanks(const std::string& question, std::chrono::milliseconds time,
                        std::function<void(Result<RankWords>)> then) = 0;
  // Other ranks: the same, with the answer of rank 0 (forward.h). An urgent request overtakes waiting ones.
  virtual void Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                       std::function<void(Result<std::string>)> then) = 0;
  // Maximum number of series in the metrics for the latest statistics of sites; 0: none.
  virtual size_t metrics_sites_max() const { return 0; }
};

}  // namespace stepwatch::control_socket
