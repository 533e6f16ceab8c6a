// A plan with all its resources, passed from the loop to the step thread, and from the step thread to the drain.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

#include "src/step/pipeline.h"

namespace stepwatch::step {

// Selects the first step of a new window.
enum class StartRule : uint8_t {
  kAsWritten,    // start_step of the config
  kWhenApplied,  // the step before which the plan is applied
  kAtStep,       // PendingPlan::at_step, agreed by the ranks of the job: a rank that applies the plan later has
                 // missed some steps, and ends with the others
};

struct NewWindow {
  StartRule start = StartRule::kAsWritten;
};
// The window in force continues: with its first step, its count and its end, and with the interval of the plan.
struct Continue {};
struct Stop {  // the window in force ends, without a new plan
  EndReason reason = EndReason::kStopped;
};

// The drain's part of a plan, created together with it, so that the drain needs no memory to accept a plan that has
// begun.
class BegunPlan {
 public:
  virtual ~BegunPlan() = default;

 private:
  friend class BegunPlans;
  BegunPlan* next_ = nullptr;
};

// Allocated off the step thread, which moves its parts but never frees.
struct PendingPlan {
  explicit PendingPlan(Stop stop = {}) : effect(stop) {}
  PendingPlan(std::variant<NewWindow, Continue, Stop> its_effect, std::shared_ptr<Pipeline> its_pipeline,
              std::unique_ptr<BegunPlan> its_part_for_drain)
      : effect(its_effect), pipeline(std::move(its_pipeline)), for_drain(std::move(its_part_for_drain)) {}

  const plan::Plan& plan() const { return *pipeline->plan; }

  std::variant<NewWindow, Continue, Stop> effect;
  // A step not later than the running one: the next boundary.
  int64_t at_step = 0;
  std::shared_ptr<Pipeline> pipeline;    // null: Stop
  std::unique_ptr<BegunPlan> for_drain;  // null: Stop, or it was passed on
  // Written by the step thread when it has finished with the plan.
  uint64_t retired_at_boundary = 0;
  PendingPlan* next = nullptr;  // in a list of retired or of superseded plans
};

// Plans that have begun, in order: pushed by the step thread, popped by the drain. Neither waits nor allocates.
class BegunPlans {
 public:
  BegunPlans() = default;
  ~BegunPlans() {
    TakeAll([](std::unique_ptr<BegunPlan>) {});
  }
  BegunPlans(const BegunPlans&) = delete;
  BegunPlans& operator=(const BegunPlans&) = delete;

  // The plan's PlanBegin must be in its ring, and the PlanEnd of every earlier plan in theirs.
  void Push(std::unique_ptr<BegunPlan> plan) noexcept {
    BegunPlan* const pushed = plan.release();
    pushed->next_ = newest_.load(std::memory_order_relaxed);
    while (
        !newest_.compare_exchange_weak(pushed->next_, pushed, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  // Drain thread: passes on each plan, from the oldest to the newest.
  template <class Take>
  void TakeAll(const Take& take) noexcept {
    BegunPlan* oldest = nullptr;
    for (BegunPlan* plan = newest_.exchange(nullptr, std::memory_order_acquire); plan != nullptr;) {
      BegunPlan* const before = std::exchange(plan->next_, oldest);
      oldest = std::exchange(plan, before);
    }
    while (oldest != nullptr) {
      std::unique_ptr<BegunPlan> plan(oldest);
      oldest = plan->next_;
      take(std::move(plan));
    }
  }
  bool empty() const { return newest_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<BegunPlan*> newest_{nullptr};
};

}  // namespace stepwatch::step
