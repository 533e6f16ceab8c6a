// The status of a job as one of its ranks knows it. The parts of the monitor fill their structs themselves; /v1/status,
// /v1/ranks and /metrics show them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/step/step_cost.h"
#include "src/step/swap_meter.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"
#include "stepwatch/options.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/status.h"

namespace stepwatch::status {

// A plan that is armed or in force.
struct PlanStatus {
  PlanId plan_id = 0;
  std::string config_sha256;
  int64_t collect_times = 0;
  int64_t step_interval = 1;  // from the config, or the longer one that its budget requires
  int64_t at_step = -1;       // first step that it may collect; -1: the ranks have not agreed on one
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // of one collected step
  int64_t queue_bytes = 0;    // memory of its ring
};

// The newest segment of the files that has begun; each rotation begins one.
struct Segment {
  int64_t number = 1;
  int64_t last_step = -1;            // of the one before it; -1: the plan ended before the cut, its files are closed
  std::vector<std::string> files{};  // of the one before it: the files that were open
};

// The budget of the plan in force or armed, and how it is kept.
struct BudgetStatus {
  double percent = 0;                   // of the training time
  std::string why_not;                  // why the sampling is not reduced; empty: it is
  int64_t factor = 1;                   // multiplies the config's step_interval
  std::vector<SiteKind> left_out;       // kinds that are not collected
  std::optional<double> spent_percent;  // of recent steps; nullopt: no collected step has ended
  uint64_t decisions = 0;
  std::string last_decision;
};

// The config file and the plans as the loop thread knows them; the step thread may be a moment ahead.
struct ReloadStatus {
  std::string run_id;             // common to all ranks, once this rank knows it
  std::string incarnation;        // identifies this process among the ranks; empty: it shares no store with them
  std::string file_sha256;        // of the file at the last look; empty: not read yet
  std::optional<Status> refusal;  // of those bytes
  std::string not_begun;          // why the file's plan is not begun; empty: it is
  std::string file_trouble;       // why the file is missing or unreadable; empty: it is readable
  std::optional<PlanStatus> in_force;
  std::optional<PlanStatus> armed;  // waits for its step
  bool overridden = false;          // the bytes that run, or ran last, override the file, which holds others
  bool stopping = false;            // the plan in force ends at the next boundary
  Segment segment;
  std::optional<BudgetStatus> budget;  // of the plan in force, or armed
  std::string watch_mode;              // "inotify", or "poll" with the reason; empty: the file is not watched
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

// Number and total length of repeated operations.
struct Durations {
  uint64_t count = 0;
  double seconds = 0;
};

// Counted from the events since the monitor was created.
struct EventCounts {
  uint64_t events = 0;
  uint64_t applied = 0;          // number of plans
  double last_applied_unix = 0;  // when the newest plan was applied, system clock; 0: never
  uint64_t aborts = 0;           // edits for which the ranks did not agree on a step
  bool last_aborted = false;     // the newest edit was one of these
  Durations decisions;           // from the read that found an edit until its plan is armed
  Durations drains;              // from the report that a plan has ended until it is drained
  Ledger ledger;                 // of all drained plans
  double measuring_seconds = 0;  // of threads of the trainer, for the same plans
  std::string write_back;        // result of writing `dynamic_on` back into the file; empty: no write was due
};

// Time that threads of the trainer have spent on measuring, under all plans.
struct MeasuringCost {
  step::StepCost total;
  uint64_t device_ns = 0;  // the share of `total` spent on devices
  // Seconds per collected step, in the newest plan with a cost of this part.
  std::array<double, step::kCostCount> per_collected{};

  double seconds() const { return static_cast<double>(total.total_ns()) * 1e-9; }
  double device_seconds() const { return static_cast<double>(device_ns) * 1e-9; }
  double seconds_of(size_t part) const { return static_cast<double>(total.ns[part]) * 1e-9; }
  // Duration of the steps without measuring.
  double step_seconds() const;
  // The name of a kind, or "boundary": the ends of collected steps.
  static const char* NameOf(size_t part);
};

inline constexpr size_t kRunStateCount = static_cast<size_t>(RunState::kFailed) + 1;
// Numbers of ranks by RunState.
using StateCounts = std::array<int, kRunStateCount>;

// States of the ranks as known to the rank whose control socket answers for the job, without querying them.
struct RankStates {
  StateCounts ranks{};
  int unknown = 0;        // no recent answer
  double asked_unix = 0;  // last time all were queried, system clock; 0: never
};

struct JobStatus {
  int pid = 0;
  std::string job_id;  // common to all starts of the job; empty: no id
  int rank = 0;
  int world_size = 1;
  bool dynamic = false;
  double uptime_seconds = 0;
  std::string config_path;
  std::string tcp_address;  // TCP address of the control socket; empty: TCP is closed

  MonitorStatus monitor;
  ReloadStatus reload;
  EventCounts counts;
  LookCounts looks;
  RefusalCounts refusals;
  Limits limits;            // on every config
  uint64_t bytes_used = 0;  // of Limits::bytes_max; counted only if there is a limit
  bool bytes_used_up = false;
  MeasuringCost cost;
  step::SwapTimes swaps;               // time of the step thread to switch to a new plan
  std::optional<double> step_seconds;  // recent mean; nullopt while no step ends
  PlanId written_plan_id = 0;          // the newest plan with written rows; 0: no plan
  std::optional<RankStates> ranks;     // nullopt: another rank's control socket answers for the job

  // The hash of the config that is armed or in force; empty: there is no such config.
  std::string running_sha256() const;
  // Why the content of the file is not running; empty: it is, or is about to.
  std::string drift() const;
};

}  // namespace stepwatch::status
