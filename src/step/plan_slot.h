// The one door from the loop thread to the step thread: a plan made ready, waiting for its step.
//
// Offer is called by one thread (the loop, or the step thread itself while it attaches), AtStep by the step thread
// only. Neither locks or allocates; at most one offer waits, a newer one replaces it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/plan/plan.h"

namespace stepwatch::step {

// A plan with everything it needs allocated off the step thread (the runtime derives from it). A null plan means: stop.
struct Prepared {
  virtual ~Prepared() = default;
  std::shared_ptr<const plan::Plan> plan;
  // Not later than the running step means the next boundary.
  int64_t at_step = 0;

 private:
  friend class PlanSlot;
  std::unique_ptr<Prepared> older_;  // superseded before this one
};

class PlanSlot {
 public:
  PlanSlot() = default;
  ~PlanSlot() {
    delete waiting_.load(std::memory_order_relaxed);
    delete superseded_.load(std::memory_order_relaxed);
  }
  PlanSlot(const PlanSlot&) = delete;
  PlanSlot& operator=(const PlanSlot&) = delete;

  // Returns the offer that still waited and is now superseded, if any; the caller retires it.
  std::unique_ptr<Prepared> Offer(std::unique_ptr<Prepared> prepared) {
    return std::unique_ptr<Prepared>(waiting_.exchange(prepared.release(), std::memory_order_acq_rel));
  }

  // Called between steps with the number of the step about to begin: the waiting offer if its step has come.
  std::unique_ptr<Prepared> AtStep(int64_t step) {
    Prepared* prepared = waiting_.load(std::memory_order_relaxed);
    if (prepared == nullptr) return nullptr;
    // Taken out before it is read: the loop may replace, and then free, an offer that is only looked at.
    prepared = waiting_.exchange(nullptr, std::memory_order_acq_rel);
    if (prepared == nullptr || prepared->at_step <= step) return std::unique_ptr<Prepared>(prepared);
    Prepared* expected = nullptr;
    if (waiting_.compare_exchange_strong(expected, prepared, std::memory_order_acq_rel)) return nullptr;
    // A newer offer came in between: it supersedes this one. The loop may not have fetched an earlier one yet; only
    // this thread puts anything there, so between the two exchanges nothing can be lost.
    prepared->older_.reset(superseded_.exchange(nullptr, std::memory_order_acquire));
    superseded_.store(prepared, std::memory_order_release);
    return nullptr;
  }

  // Loop thread: an offer that AtStep took out and found replaced by a newer one, if any; call until there is none.
  std::unique_ptr<Prepared> TakeSuperseded() {
    if (!taken_) taken_.reset(superseded_.exchange(nullptr, std::memory_order_acquire));
    std::unique_ptr<Prepared> first = std::move(taken_);
    if (first) taken_ = std::move(first->older_);
    return first;
  }

  bool waiting() const { return waiting_.load(std::memory_order_relaxed) != nullptr; }

 private:
  std::atomic<Prepared*> waiting_{nullptr};
  std::atomic<Prepared*> superseded_{nullptr};  // a list through older_
  std::unique_ptr<Prepared> taken_;             // loop thread: the rest of such a list
};

}  // namespace stepwatch::step
