// The only path from the loop thread to the step thread: holds a prepared plan until its step.
//
// Publish is called by one thread (the loop, or the step thread itself during the attachment), AtStep only by the step
// thread. Neither locks or allocates; at most one plan waits, and a newer one replaces it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/step/pending_plan.h"

namespace stepwatch::step {

class PlanSlot {
 public:
  PlanSlot() = default;
  ~PlanSlot() {
    delete waiting_.load(std::memory_order_relaxed);
    while (TakeSuperseded() != nullptr) {
    }
  }
  PlanSlot(const PlanSlot&) = delete;
  PlanSlot& operator=(const PlanSlot&) = delete;

  // Returns the waiting plan that this one replaces, if any.
  std::unique_ptr<PendingPlan> Publish(std::unique_ptr<PendingPlan> plan) noexcept {
    return std::unique_ptr<PendingPlan>(waiting_.exchange(plan.release(), std::memory_order_acq_rel));
  }

  // Called between steps with the number of the step about to begin; returns the waiting plan if its step has come.
  std::unique_ptr<PendingPlan> AtStep(int64_t step) noexcept {
    PendingPlan* plan = waiting_.load(std::memory_order_relaxed);
    if (plan == nullptr) return nullptr;
    // Taken out before it is read: the loop may replace and free a plan that is only read in place.
    plan = waiting_.exchange(nullptr, std::memory_order_acq_rel);
    if (plan == nullptr || plan->at_step <= step) return std::unique_ptr<PendingPlan>(plan);
    PendingPlan* expected = nullptr;
    if (waiting_.compare_exchange_strong(expected, plan, std::memory_order_acq_rel)) return nullptr;
    // A newer plan arrived in between and replaces this one. The loop may not have fetched an earlier superseded plan
    // yet; only this thread adds to the list, so no plan is lost between the two exchanges.
    plan->next = superseded_.exchange(nullptr, std::memory_order_acquire);
    superseded_.store(plan, std::memory_order_release);
    return nullptr;
  }

  // Loop thread: a plan that AtStep took out and found replaced by a newer one; call until it returns null.
  std::unique_ptr<PendingPlan> TakeSuperseded() {
    if (taken_ == nullptr) taken_ = superseded_.exchange(nullptr, std::memory_order_acquire);
    std::unique_ptr<PendingPlan> first(taken_);
    if (first) taken_ = std::exchange(first->next, nullptr);
    return first;
  }

  bool waiting() const { return waiting_.load(std::memory_order_relaxed) != nullptr; }

 private:
  std::atomic<PendingPlan*> waiting_{nullptr};
  std::atomic<PendingPlan*> superseded_{nullptr};  // a list through `next`
  PendingPlan* taken_ = nullptr;                   // loop thread: the rest of such a list
};

}  // namespace stepwatch::step
