// What a control socket can be asked: values in, values out. The API implements it over a monitor, tests with what they
// like.
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
  int64_t step_interval = 1;  // the config's, or the longer one that its budget asks for
  int64_t at_step = -1;       // the first step that it may collect; -1: not known yet
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // of one collected step
  int64_t queue_bytes = 0;    // memory of its ring
};

// What no config exceeds (Options::limits, the environment), and what is used of it. 0 or empty: there is no such
// limit.
struct LimitFacts {
  std::string output_root;
  uint64_t bytes_max = 0;
  uint64_t bytes_used = 0;  // counted only with a limit
  bool bytes_used_up = false;
  int64_t rows_per_step_max = 0;
  uint64_t queue_bytes_max = 0;
  std::vector<std::string> formats;
};

// The bytes that the config file holds were not taken.
struct RefusedEdit {
  std::string sha256;
  std::string message;
  TextPlace place;
};

// Things that took a while, counted and added up.
struct Durations {
  uint64_t count = 0;
  double seconds = 0;
};

// What measuring has taken so far, of the threads of the trainer.
struct CostFacts {
  struct Part {
    std::string name;  // a kind, or "boundary": the ends of collected steps
    double seconds = 0;
    double per_collected = 0;  // seconds a collected step, of the newest plan in which it took any
  };
  int64_t collected = 0;      // steps
  int64_t steps = 0;          // collected or not, while a plan was in force
  double seconds = 0;         // that measuring took in them
  double device_seconds = 0;  // of that, on devices
  double step_seconds = 0;    // that they took, less that
  std::vector<Part> parts;    // that took any
};

// How much that may be, by the config.
struct BudgetFacts {
  double percent = 0;                   // of the training time
  std::string why_not;                  // why nothing is lowered; empty: it is
  int64_t factor = 1;                   // on the config's step_interval
  std::vector<std::string> left_out;    // kinds
  std::optional<double> spent_percent;  // lately
  uint64_t decisions = 0;
  std::string last_decision;
};

// Looks at the config file, by what has caused them.
struct LookCounts {
  uint64_t event = 0;    // inotify has reported a change
  uint64_t slow = 0;     // the look that always runs
  uint64_t again = 0;    // what the look before it found was to rest first, or could not be taken over
  uint64_t refresh = 0;  // somebody has asked for it, or the watching begins
};

// Edits that were refused, by where on their way.
struct RefusalCounts {
  uint64_t syntax = 0;  // no JSON
  uint64_t value = 0;   // a key holds what it cannot take
  uint64_t limit = 0;   // it goes beyond a limit of the run
  uint64_t rank = 0;    // another rank cannot do it
};

inline constexpr size_t kRunStateCount = static_cast<size_t>(RunState::kFailed) + 1;

// What the rank whose control socket answers for the job knows of the ranks, without asking them.
struct RankStates {
  std::array<int, kRunStateCount> ranks{};  // by RunState
  int unknown = 0;                          // not heard of lately
  double asked_unix = 0;                    // when all were asked last, by the system's clock; 0: never
};

struct JobStatus {
  // Who.
  int pid = 0;
  std::string run_id;       // of all ranks, once this one has heard of it
  std::string job_id;       // of all starts of the job; empty: it has none
  std::string incarnation;  // of this process among the ranks; empty: it shares no store with them
  int rank = 0;
  int world_size = 1;
  bool dynamic = false;
  double uptime_seconds = 0;

  // What runs.
  MonitorStatus monitor;
  std::optional<PlanFacts> plan;   // in force
  std::optional<PlanFacts> armed;  // waits for its step
  std::string running_sha256;      // of the config that is armed or in force; empty: nothing is

  LimitFacts limits;

  // What the file says.
  std::string config_path;
  std::string file_sha256;   // what the file held at the last look; empty: it was not read yet
  std::string drift;         // why that is not what runs; empty: it is, or is about to be
  std::string not_begun;     // why what it asks for is not begun, as an earlier start has done it; empty: it is
  std::string file_trouble;  // the file is missing or unreadable; empty: it is not
  std::optional<RefusedEdit> refusal;
  std::string write_back;   // what became of `dynamic_on` in the file; empty: nothing was to be written
  std::string watch_mode;   // "inotify", or "poll" with the reason; empty: nobody watches the file
  std::string tcp_address;  // where the control socket is open on TCP; empty: nowhere
  int64_t segment = 1;      // of the run's files: one more after each rotation

  // Counted since the monitor was created. The ledger is that of all plans that are drained.
  Ledger ledger;
  double measuring_seconds = 0;        // of threads of the trainer, for the same plans
  std::optional<CostFacts> cost;       // of all plans; nothing before the first collected step has ended
  std::optional<BudgetFacts> budget;   // of the plan in force, or armed
  std::optional<double> step_seconds;  // lately; nothing while no step ends
  uint64_t applied = 0;                // plans
  double last_applied_unix = 0;        // when the newest of them was, by the system's clock; 0: none was
  RefusalCounts refusals;
  uint64_t aborts = 0;        // edits on whose step the ranks did not agree
  bool last_aborted = false;  // the newest edit was one of these
  Durations decisions;        // from the look that saw an edit to its plan being armed
  Durations drains;           // from the news that a plan has ended to its end in the drain
  Durations swaps;            // what taking a plan over has taken of the step thread
  double longest_swap_seconds = 0;
  LookCounts looks;
  uint64_t events = 0;
  PlanId written_plan_id = 0;       // the newest plan of which rows are written; 0: none
  std::optional<RankStates> ranks;  // nothing: another rank's control socket answers for the job
};

// The result of a request to pause the collection, or to resume it.
struct PauseResult {
  enum class Outcome : uint8_t {
    kDone,
    kUnchanged,      // it was so already
    kAsked,          // the running step has not ended in time; it is done when it does
    kNotCollecting,  // no plan is in force
    kEnding,         // its window has ended, or is about to, or another plan takes its place
    kRanks,          // a rank whose job agrees on no step is not paused alone
    kNoAnswer,       // the loop hangs
  };
  Outcome outcome = Outcome::kNoAnswer;
  bool paused = false;  // at this moment
  PlanId plan_id = 0;   // in force, 0: none
  int64_t step = 0;     // that runs
  int64_t at_step =
      -1;  // kDone, kUnchanged: since then it is so; kAsked: from then on, if the ranks agree; -1: not known
  bool is_of_all_ranks = true;
};

// The result of a request to close the files with the rows recorded so far.
struct RotateResult {
  enum class Outcome : uint8_t {
    kDone,
    kAsked,          // the running step has not ended in time, or its rows are not written yet
    kUnderWay,       // an earlier request is not done
    kNotCollecting,  // no plan is in force, so no file is open
    kNoAnswer,       // the loop hangs
  };
  Outcome outcome = Outcome::kNoAnswer;
  int64_t segment = 0;             // the one that begins
  int64_t last_step = -1;          // of the one before; -1: the plan had ended, and its files are closed
  std::string directory;           // of this run and rank; empty: none
  std::vector<std::string> files;  // that were open: names in the directory
};

struct NumberedEvent {
  uint64_t id = 0;  // from 1 in each monitor
  Event event;
  std::optional<output::EditPeer>
      peer;  // who sent the bytes that it is about through the control socket; nothing: nobody did
};

struct EventPage {
  std::vector<NumberedEvent> events;
  uint64_t newest = 0;  // id of the newest event; 0: there was none
};

struct DoctorReport {
  std::string cpu_target;
  std::vector<std::string> cpu_available;
  std::string cpu_wanted;  // by STEPWATCH_CPU_TARGET; empty: none
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
  std::string text;          // kApply
  PlanId plan_id = 0;        // kRollback: back to its config; 0: to the one before the config that ran last
  std::string if_match;      // only if the file holds the bytes with this SHA-256; empty: whatever it holds
  bool is_override = false;  // kApply: the file is left alone, and what it holds takes over when it changes
  int64_t at_step = 0;       // kApply: its plan begins then; not later than the running step: at the next
  output::EditPeer peer;
};

struct ChangeReport {
  enum class Outcome : uint8_t {
    kWritten,
    kUnchanged,    // the file held the text already
    kOverridden,   // the text runs, or is about to, and the file holds another
    kConflict,     // it holds something else than it should
    kEdited,       // somebody saved at the same moment; theirs stands
    kInvalid,      // the text is unusable
    kUnwritable,   // the file cannot be changed
    kNoOldConfig,  // kRollback: there is none to go back to
    kStatic,       // the job has read its config once, and does not look again
    kNotReader,    // another process of the job reads the config
    kNotReady,     // not now
  };
  // The verdict of the monitor on the text that is in the file.
  enum class Taken : uint8_t { kPending, kArmed, kRunning, kStopping, kOff, kRefused, kSuperseded };

  Outcome outcome = Outcome::kNotReady;
  std::string config_path;
  std::string method;           // how it was written
  std::string message;          // unless kWritten, kUnchanged or kOverridden
  TextPlace place;              // kInvalid
  std::string replaced_sha256;  // what the file held; empty: nothing, or it was not read
  std::string sha256;           // of the text
  PlanId old_plan_id = 0;       // kRollback: whose config it is
  bool is_begun = false;        // kUnchanged: what the file asks for was over, or not begun, and is begun again

  // kWritten, kUnchanged, kOverridden
  Taken taken = Taken::kPending;
  PlanId plan_id = 0;  // of the plan that it is about; 0: none
  int64_t at_step = -1;
  std::string refusal;  // kRefused
  TextPlace refusal_place;
};

// The history of a run, as far as it is on the disk.
struct HistoryReport {
  static constexpr uint64_t kLinesMax = 10000;  // that anybody can ask for

  Status status;
  std::string directory;  // of the run
  output::History history;
};

// The answer of a rank of the job.
struct RankWord {
  int rank = 0;
  std::string text_untrusted;  // empty: no answer, or it is not understood
  int64_t heard_ms = 0;        // after the question
  std::string trouble;         // why the text is empty
};

struct RankWords {
  std::vector<RankWord> words;  // by rank; this rank's own among them
  std::string alone;            // why no other rank was asked; empty: all were
};

// Lines of what a process says of itself (docs/formats/beats.md).
struct BeatPage {
  std::string run_id;
  int rank = 0;
  std::vector<std::string> lines;  // JSON objects, each on one line
  uint64_t next = 0;               // number of the last of them: the next question's `since`
  uint64_t newest = 0;             // number of the newest line that there is; 0: none
  uint64_t lost = 0;               // lines between `since` and the first of these that are not kept any more
  uint64_t dropped = 0;            // numbers and ends of steps, from the beginning on, of which no line was made
};

// The descriptors of the pulse, as long as this is kept. Both are sealed and open for reading alone.
struct PulseGrant {
  int page_fd = -1;  // -1: there is no pulse
  size_t page_bytes = 0;
  int names_fd = -1;  // of the modules; -1: there is no table yet
  size_t names_bytes = 0;
  uint32_t names_generation = 0;
  std::shared_ptr<const void> keep;
};

// Thread-safe. GetStatus, EventsAfter and Tick answer at once; the others may take a while, and wait for no file.
// Those with `then` begin something and answer when it is done, on any thread, once. `then` may be called at once, and
// is destroyed uncalled if the monitor closes first.
class Job {
 public:
  virtual ~Job() = default;

  virtual JobStatus GetStatus() = 0;
  // The oldest events with a larger id that are still kept, at most `count`.
  virtual EventPage EventsAfter(uint64_t id, size_t count) = 0;
  // Called once a second while the control socket is open.
  virtual void Tick() = 0;
  // The oldest lines with a larger number that are still kept, at most `count`.
  virtual BeatPage BeatsAfter(uint64_t /*number*/, size_t /*count*/) { return {}; }
  virtual PulseGrant Pulse() { return {}; }
  // See Monitor::Latest.
  virtual std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) = 0;
  virtual DoctorReport Examine() = 0;

  // Changes the config file, and has the monitor look at it at once.
  virtual void ChangeConfig(ConfigChange change, std::function<void(const ChangeReport&)> then) = 0;
  virtual void ReadHistory(std::function<void(const HistoryReport&)> then) = 0;
  // The bytes with this hash that the history of the run keeps.
  virtual void ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) = 0;
  // What the config would mean; nothing is armed. kUnavailable: no model is attached yet.
  virtual Result<PlanPreview> Preview(const std::string& text_untrusted) = 0;
  // From the next step boundary on the plan in force collects nothing, and keeps its window and its count; or it
  // collects again. In a job of ranks: on all of them, from the step that they agree on. Waits for it, at most that
  // long.
  virtual PauseResult Pause(bool pause, std::chrono::milliseconds time) = 0;
  // Closes the files with what is recorded up to the next step boundary; what comes goes to files of other names. Waits
  // until that is done, at most that long.
  virtual RotateResult Rotate(std::chrono::milliseconds time) = 0;

  // False: what concerns the whole job is for rank 0's control socket, to which Forward hands it on.
  virtual bool Leads() const = 0;
  // Rank 0: asks every rank; `then` is called once, within the call or on the control socket's worker, in so much time.
  virtual void AskRanks(const std::string& question, std::chrono::milliseconds time,
                        std::function<void(Result<RankWords>)> then) = 0;
  // Other ranks: likewise, with rank 0's answer (forward.h). An urgent request goes before those that wait.
  virtual void Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                       std::function<void(Result<std::string>)> then) = 0;
  // How many series of the latest statistics of sites the metrics show at most; 0: none.
  virtual size_t metrics_sites_max() const { return 0; }
};

}  // namespace stepwatch::control_socket
