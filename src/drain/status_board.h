// What the drain tells the loop: the far side of the one-way circle of threads.
//
// The drain posts, the loop takes; the step thread never touches it.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

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
using BoardEntry = std::variant<PlanBegan, PlanFinished, PlanDrained, SinkFailed, SinkRecovered, AlarmsRaised,
                                AnomalyFileFailed, AnomalyFileRecovered>;

class StatusBoard {
 public:
  // `wake` is called on the drain thread after each Post and must only schedule work elsewhere.
  explicit StatusBoard(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Post(BoardEntry entry);
  // While the loop is far behind, the sentences are only counted.
  void Post(AlarmsRaised alarms);
  std::vector<BoardEntry> Take();

  // Sentences for the user that steer nothing.
  void PostTroubles(std::vector<std::string> sentences);
  std::vector<std::string> TakeDiagnostics();

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<BoardEntry> entries_;    // guarded by mutex_
  size_t alarm_sentences_ = 0;         // guarded by mutex_; in entries_
  std::vector<std::string> troubles_;  // guarded by mutex_
};

}  // namespace stepwatch::drain
