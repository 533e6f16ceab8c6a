// State of the running step: PlanSwitch changes it between two steps, recorders read it during a step.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/fork_guard.h"
#include "src/step/pipeline.h"
#include "src/step/step_gate.h"
#include "stepwatch/record.h"

namespace stepwatch::step {

class RunningStep {
 public:
  // `gate` must outlive the step.
  RunningStep(int64_t first_step, const StepGate* gate) : gate_(gate), number_(first_step) {}

  // --- any thread ---
  bool InOwner() const noexcept { return guard_.InOwner(); }
  // A reader of the number also sees the plan slot as it was after it was checked for this step.
  int64_t number() const noexcept { return number_.load(std::memory_order_acquire); }
  // True if the step is collected. False in every forked child.
  const std::atomic<bool>& collecting() const noexcept { return collecting_; }
  // The groups of sites due in a collected step.
  const std::atomic<GroupSet>& due_groups() const noexcept { return due_groups_; }
  // True if an observation was made in the step. Exact while the step thread waits for the caller.
  bool observed() const noexcept { return observed_step_.load(std::memory_order_relaxed) == number(); }

  // --- threads of the trainer, inside the step ---
  // The pipeline of the plan in force; null without a plan.
  Pipeline* pipeline() const noexcept { return pipeline_.load(std::memory_order_acquire); }
  // The same if the step is collected, otherwise null.
  Pipeline* CollectingPipeline() const noexcept {
    return collecting_.load(std::memory_order_relaxed) ? pipeline() : nullptr;
  }
  GroupSet due() const noexcept { return due_groups_.load(std::memory_order_relaxed); }
  bool Collects(const RecordLayout& layout, SiteId site) const noexcept {
    const GroupSet due = this->due();
    return due == kAllGroups || site >= layout.sites.size() || HasGroup(due, layout.sites[site].group);
  }
  uint8_t record_flags() const noexcept { return gate_->in_doubt() ? Record::kInDoubt : 0; }
  void NoteObserved() noexcept {
    if (!observed()) observed_step_.store(number(), std::memory_order_relaxed);
  }

  // --- step thread, between steps ---
  void SetNumber(int64_t number) noexcept { number_.store(number, std::memory_order_release); }
  void SetPipeline(Pipeline* pipeline) noexcept { pipeline_.store(pipeline, std::memory_order_release); }
  void SetCollecting(bool collecting, GroupSet due) noexcept {
    due_groups_.store(due, std::memory_order_relaxed);
    collecting_.store(collecting, std::memory_order_release);
  }
  void StopCollecting() noexcept { collecting_.store(false, std::memory_order_relaxed); }

 private:
  const StepGate* const gate_;
  base::ForkGuard guard_;
  std::atomic<bool>& collecting_ = guard_.flag();
  std::atomic<GroupSet> due_groups_{kAllGroups};
  std::atomic<int64_t> number_;
  std::atomic<int64_t> observed_step_{-1};  // the last step with an observation
  // Read by autograd threads inside a step; changed between steps only.
  std::atomic<Pipeline*> pipeline_{nullptr};
};

}  // namespace stepwatch::step
