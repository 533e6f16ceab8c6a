// Divides the time of each training step among its parts.
//
// At each moment the training is in one part. A change of the part, of the phase, and the end of a step give the time
// since the previous such event to the part that was in force, so the parts of a step never sum to more than the step.
// The time is passed in. Any thread, without locks; in practice the training thread, or an autograd thread while that
// one waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "stepwatch/report.h"

namespace stepwatch::step {

// Time of one step in the parts that are not the rest.
struct PartTimes {
  static constexpr int64_t kAbsent = -1;

  int64_t data_ns = kAbsent;
  int64_t optimizer_ns = kAbsent;
  // The inner parts, of what remains without the two above.
  int64_t forward_ns = kAbsent;
  int64_t backward_ns = kAbsent;
  int64_t communication_ns = kAbsent;
};

class PartClock {
 public:
  explicit PartClock(int64_t now_ns) noexcept : state_(Pack({StepPart::kRest, true, now_ns})) {}

  // Begins a part; returns the previous one, which the caller restores later.
  StepPart Enter(StepPart part, int64_t now_ns) noexcept;
  // Time outside training (evaluations, checkpoints, pauses) belongs to no part.
  void SetTraining(bool is_training, int64_t now_ns) noexcept;
  // Returns the times of the step that ends. A part in which no training time began or ended is absent, and so are all
  // parts of a step with unknown time. Data in force continues in the next step. An update cannot last beyond its step:
  // its end was missed, so all parts of the step are absent. An inner part in force was missed as well, or the step
  // ends in the middle of it: the inner parts of this step and of the next one are absent.
  PartTimes EndStep(int64_t now_ns) noexcept;

 private:
  static constexpr size_t kParts = kStepPartCount;

  struct State {
    StepPart part = StepPart::kRest;
    bool is_training = true;
    int64_t since_ns = 0;
  };
  // The part in 3 bits, training in 1, the time in the others.
  static uint64_t Pack(State state) noexcept;
  static State Unpack(uint64_t word) noexcept;

  // Replaces the state by `change(state)` at `now_ns`; counts the time of the previous state and returns that state.
  template <class Change>
  State Switch(int64_t now_ns, const Change& change) noexcept;

  std::atomic<uint64_t> state_;
  std::atomic<uint32_t> seen_{0};  // a bit for each part to which a time was added since the last end of a step
  std::array<std::atomic<int64_t>, kParts> ns_{};
  bool is_cut_ = false;  // the last end of a step was in the middle of an inner part
};

}  // namespace stepwatch::step
