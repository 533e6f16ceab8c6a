// A line: an observation of one run at one moment, a beat or an event.
//
// Lines are made from pulses, reports and HTTP requests; stepwatchd spools them, and `replay` reads them. All are
// values. A number may be NaN or infinite; a missing value is absent, never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "operations/vocabulary/names.h"

namespace stepwatch::operations {

// A report of one rank. Numbers belong to `step` and to this rank; a number that is not refreshed may be repeated with
// later steps.
struct Beat {
  std::optional<int64_t> step;  // the last finished step
  std::optional<RunPhase> phase;
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::optional<double> lr;
  std::optional<double> tokens;
  std::optional<double> samples;
  std::optional<double> step_seconds;  // the rank's own time, without waiting for others
  std::optional<double> loss_scale;
  std::string module;                                    // entered last; empty: unknown
  std::vector<std::pair<std::string, double>> reported;  // any other number, by its key
  bool is_of_log = false;                                // read in a log by stepwatchd; false: reported by the job
};

// The member of the beat that has this JSON key, of those that are numbers of a step; null: there is none.
std::optional<double>* NumberNamed(std::string_view key, Beat* beat);

struct StartEvent {
  std::optional<int64_t> world;  // ranks
  std::string host;
  std::string owner = {};      // of the job, by its scheduler; empty: not known
  std::string partition = {};  // likewise
};
// The whole run starts again, perhaps from an earlier step and with another world.
struct RestartEvent {
  std::optional<int64_t> world;
  std::string host;
  std::string owner = {};
  std::string partition = {};
};
// Comes before the ProcessGone of its processes.
struct EndEvent {
  EndReason reason = EndReason::kOk;
};
struct ExceptionEvent {
  std::string type;
  std::string message;
  std::string stack;
};
struct SignalEvent {
  int64_t number = 0;
};
// A checkpoint is complete.
struct CheckpointEvent {
  std::optional<int64_t> step;
};
// The process of the rank no longer exists.
struct ProcessGoneEvent {};
// A sample of one field of a GPU: xid (the last code, 0: none), ecc_uncorrected_total, row_remap_failure, lost,
// temperature_celsius, nvlink_down (number of links), hw_slowdown (1: the hardware holds clocks back), utilization
// (percent); other fields are kept, and no detector reads them.
struct GpuEvent {
  std::string uuid;
  std::string field;
  double value = 0;
};
// Ends by ResumeEvent, RestartEvent, EndEvent or expiry.
struct PauseEvent {
  std::optional<double> expires_seconds;
};
struct ResumeEvent {};
// Samples of a host. `oom_kill` counts since its boot, so the first value is no fault; `psi` is memory some avg10 in
// percent. A host without a name is that of the line's rank.
struct HostEvent {
  std::string host;
  std::optional<double> oom_kill;
  std::optional<double> psi;
  std::optional<double> cgroup_oom_kill = {};  // those of `oom_kill` that were in cgroups of the run
  // The cgroup of the run that has the least left of its limit.
  std::optional<double> cgroup_bytes = {};
  std::optional<double> cgroup_bytes_max = {};

  bool operator==(const HostEvent&) const = default;
};
// The observer's wall clock was set forward by `seconds` (back: negative). Later lines are in the new clock.
struct ClockStepEvent {
  double seconds = 0;
};
// The state of the rank's process in the operating system: one letter as in /proc/PID/stat; T: stopped, t: traced, D:
// waits for a device or a mount, Z: dead and not yet reaped. A second witness of a rank that stands still.
struct ProcessStateEvent {
  char state = 'R';
};
// The rank waits for its peers, by a stack or the collective library: a second witness that another rank stands still.
// It holds until the rank finishes a step or reports otherwise.
struct CollectiveWaitEvent {
  std::string operation;  // all_reduce, barrier, ...; empty: unknown
  bool waits = true;
};
// Stacks of the rank, collected from outside; evidence for open incidents.
struct StacksEvent {
  std::string text;
  bool is_of_nccl_ras = false;  // instead the answer of NCCL's RAS about all ranks
};

using Event = std::variant<StartEvent, RestartEvent, EndEvent, ExceptionEvent, SignalEvent, CheckpointEvent,
                           ProcessGoneEvent, GpuEvent, PauseEvent, ResumeEvent, HostEvent, ClockStepEvent,
                           ProcessStateEvent, CollectiveWaitEvent, StacksEvent>;

struct Line {
  double t = 0;  // seconds of the observer's wall clock, finite
  std::string run;
  std::optional<int64_t> rank;  // always present in a beat
  std::variant<Beat, Event> what;
};

// "beat", or the JSON name of the event's kind.
std::string_view KindOf(const Line& line);

}  // namespace stepwatch::operations
