// Reports of the drain to the loop: the last link of the one-way circle of threads.
//
// The drain posts, the loop reads; the step thread never uses the board. The board is bounded: it allocates its memory
// at construction, and counts entries that do not fit while the loop hangs. Posting never fails for lack of memory.
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
  int64_t last_step = -1;  // -1: none, another plan replaced it before its first step
  int64_t collected = 0;
};
// The plan is paused or resumed at `step`.
struct PlanPaused {
  PlanId plan_id = 0;
  int64_t step = 0;
  bool paused = false;
};
// The rows up to `last_step` are in closed files; later ones go to those of `segment`.
struct SegmentBegun {
  int64_t segment = 0;
  PlanId plan_id = 0;
  int64_t last_step = 0;
  std::vector<std::string> files;  // the closed files
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
// Alarms of the rules of `alert` in one step.
struct AlarmsRaised {
  PlanId plan_id = 0;
  int64_t step = 0;
  std::vector<std::string> sentences;  // one per alarm
  size_t further = 0;                  // alarms without a sentence: too many at once
};
struct AnomalyFileFailed {
  Status status;
};
struct AnomalyFileRecovered {};
// Cost of measuring in the newest collected steps of a plan.
struct StepsMeasured {
  PlanId plan_id = 0;
  bool is_first = false;  // includes the plan's first collected step
  step::StepCost cost;
  uint64_t device_ns = 0;  // part of the cost: device time, also of earlier steps
};
using BoardEntry = std::variant<PlanBegan, PlanFinished, PlanDrained, SinkFailed, SinkRecovered, AlarmsRaised,
                                AnomalyFileFailed, AnomalyFileRecovered, PlanPaused, SegmentBegun>;

class StatusBoard {
 public:
  // Limits of waiting entries. Entries about plans have room of their own: a plan posts three, and a hanging loop
  // publishes no further plans.
  static constexpr size_t kAlarmEntriesMax = 256;
  static constexpr size_t kHealthEntriesMax = 64;
  static constexpr size_t kPlanEntriesMax = 192;
  static constexpr size_t kDiagnosticsMax = 256;
  static constexpr size_t kMeasuredMax = 64;

  // `wake` must only schedule a call of Woken() on the loop. At most one such call is outstanding.
  explicit StatusBoard(std::function<void()> wake);

  // --- drain thread ---
  void Post(BoardEntry entry) noexcept;
  // While the loop is far behind, the sentences are only counted; without a free entry, the steps as well.
  void Post(AlarmsRaised alarms) noexcept;
  // Messages for the user that have no other effect.
  void PostDiagnostics(std::vector<std::string> sentences) noexcept;
  // With `wakes`, because a budget is set, wakes the loop and keeps the entry for it. If the loop is far behind, the
  // newest costs are added up.
  void Post(const StepsMeasured& measured, bool wakes) noexcept;
  // Wakes the loop again if an earlier attempt for waiting entries failed.
  void Remind() noexcept;

  // --- loop thread ---
  // Begins the call that `wake` has scheduled: later posts schedule another one.
  void Woken() noexcept;
  std::vector<BoardEntry> Take();
  // A last sentence reports how many were left out, if any.
  std::vector<std::string> TakeDiagnostics();
  std::vector<StepsMeasured> TakeMeasured();

  // --- any thread ---
  step::StepCost cost_so_far() const;
  uint64_t device_ns_so_far() const;  // part of the cost
  // Cost of each kind, in seconds by position; 0: unknown.
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
