// What the drain tells the loop: the far side of the one-way circle of threads.
//
// The drain posts, the loop takes; the step thread never touches the board. The board is bounded: it gets its memory
// when it is made, and counts what a loop that hangs leaves no room for. Posting never fails for lack of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/mutex.h"
#include "src/drain/kind_costs.h"
#include "src/step/record_ring.h"
#include "stepwatch/record.h"
#include "stepwatch/status.h"

namespace stepwatch::drain {

struct PlanBegan {
  PlanId plan_id = 0;
  int64_t first_step = 0;
};
struct PlanFinished {
  PlanId plan_id = 0;
  step::EndReason reason = step::EndReason::kClosed;
  int64_t last_step = -1;  // -1: it had none, another plan took its place before its first step
  int64_t collected = 0;
};
// From `step` on the plan collects nothing, or collects again.
struct PlanPaused {
  PlanId plan_id = 0;
  int64_t step = 0;
  bool paused = false;
};
// The rows up to `last_step` are in files that are closed; later ones go to those of `segment`.
struct SegmentBegun {
  int64_t segment = 0;
  PlanId plan_id = 0;
  int64_t last_step = 0;
  std::vector<std::string> files;  // that were open
};
// Every record of the plan is written or counted as dropped.
struct PlanDrained {
  PlanId plan_id = 0;
  step::EndReason reason = step::EndReason::kClosed;
  int64_t collected = 0;
  Ledger ledger;
  double busy_seconds = 0;  // time that trainer threads spent measuring
};
struct SinkFailed {
  Status status;
};
struct SinkRecovered {};
// What the rules of `alert` found in one step.
struct AlarmsRaised {
  PlanId plan_id = 0;
  int64_t step = 0;
  std::vector<std::string> sentences;  // one an alarm
  size_t further = 0;                  // alarms without a sentence: too many at once
};
struct AnomalyFileFailed {
  Status status;
};
struct AnomalyFileRecovered {};
// What measuring has cost in the newest collected steps of a plan.
struct StepsMeasured {
  PlanId plan_id = 0;
  bool is_first = false;  // the plan's first collected step is among them
  step::StepCost cost;
  uint64_t device_ns = 0;  // of the cost: what devices took, in steps before these as well
};
using BoardEntry = std::variant<PlanBegan, PlanFinished, PlanDrained, SinkFailed, SinkRecovered, AlarmsRaised,
                                AnomalyFileFailed, AnomalyFileRecovered, PlanPaused, SegmentBegun>;

class StatusBoard {
 public:
  // Entries that may wait for the loop. Those about plans have room of their own: a plan posts three, and the loop that
  // hangs hands out no further plans.
  static constexpr size_t kAlarmEntriesMax = 256;
  static constexpr size_t kHealthEntriesMax = 64;
  static constexpr size_t kPlanEntriesMax = 192;
  static constexpr size_t kDiagnosticsMax = 256;
  static constexpr size_t kMeasuredMax = 64;

  // `wake` schedules a call of Woken() on the loop, and does nothing else. At most one such call is outstanding.
  explicit StatusBoard(std::function<void()> wake);

  // --- drain thread ---
  void Post(BoardEntry entry) noexcept;
  // While the loop is far behind, the sentences are only counted; when there is no entry left, the steps as well.
  void Post(AlarmsRaised alarms) noexcept;
  // Sentences for the user that steer nothing.
  void PostDiagnostics(std::vector<std::string> sentences) noexcept;
  // Wakes the loop, and keeps the entry for it, only if it is to act upon it: with a budget. Of one that is far behind
  // what was measured in the newest steps adds up.
  void Post(const StepsMeasured& measured, bool wakes) noexcept;
  // Wakes the loop again if it was not to be woken for what lies here.
  void Remind() noexcept;

  // --- loop thread ---
  // The call that `wake` has scheduled begins: what is posted from here on schedules another one.
  void Woken() noexcept;
  std::vector<BoardEntry> Take();
  // One more sentence says how much was left out, if anything was.
  std::vector<std::string> TakeDiagnostics();
  std::vector<StepsMeasured> TakeMeasured();

  // --- any thread ---
  step::StepCost cost_so_far() const;
  uint64_t device_ns_so_far() const;  // of the cost
  // What each kind takes, in seconds by place; 0: not known.
  std::array<double, step::kCostCount> cost_per_collected_step() const;

 private:
  struct LeftOut {
    uint64_t alarms = 0;
    uint64_t alarm_steps = 0;
    uint64_t health_changes = 0;
    uint64_t diagnostics = 0;

    bool operator==(const LeftOut&) const = default;
  };

  void Wake() noexcept;
  bool TakesPlaceOfLast(BoardEntry* entry) STEPWATCH_REQUIRES(mutex_);
  static std::string TextOf(const LeftOut& left_out);

  const std::function<void()> wake_;
  mutable base::Mutex mutex_;
  std::vector<BoardEntry> entries_ STEPWATCH_GUARDED_BY(mutex_);
  std::vector<StepsMeasured> measured_ STEPWATCH_GUARDED_BY(mutex_);
  step::StepCost cost_so_far_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t device_ns_so_far_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  KindCosts kind_costs_ STEPWATCH_GUARDED_BY(mutex_);
  size_t alarm_sentences_ STEPWATCH_GUARDED_BY(mutex_) = 0;  // in entries_
  size_t alarm_entries_ STEPWATCH_GUARDED_BY(mutex_) = 0;    // in entries_
  size_t health_entries_ STEPWATCH_GUARDED_BY(mutex_) = 0;   // in entries_
  std::vector<std::string> diagnostics_ STEPWATCH_GUARDED_BY(mutex_);
  LeftOut left_out_ STEPWATCH_GUARDED_BY(mutex_);
  bool woken_ STEPWATCH_GUARDED_BY(mutex_) = false;  // a call of Woken is outstanding
};

}  // namespace stepwatch::drain
