// The gate of a step that ranks are about to agree on: the step thread does not begin that step without waiting for the
// decision.
//
// No decision is missed: the loop sets the gate and then reads the step that began last; the step thread announces the
// step that it begins and then reads the gate. Both in one total order (seq_cst), so at least one of the two sees the
// other's write: a rank that had not reached the step when it voted will stop at the gate.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#include "src/step/semaphore.h"

namespace stepwatch::step {

class StepGate {
 public:
  // The step thread waits at most `patience` at a gate, and only once.
  StepGate(int64_t first_step, std::chrono::milliseconds patience);

  // --- loop thread ---
  // Sets the gate and returns the step that began last, read afterwards.
  int64_t HoldAt(int64_t step) noexcept {
    gate_.store(step, std::memory_order_seq_cst);
    return arriving_.load(std::memory_order_seq_cst);
  }
  void Release() noexcept {
    gate_.store(kOpen, std::memory_order_seq_cst);
    opened_.Post();
  }

  // --- step thread ---
  // Announces that `step` is about to begin; returns when it may begin, or when patience has run out.
  void Arrive(int64_t step) noexcept {
    arriving_.store(step, std::memory_order_seq_cst);
    if (step >= gate_.load(std::memory_order_seq_cst)) return Wait(step);
    if (in_doubt()) in_doubt_.store(false, std::memory_order_relaxed);
  }

  // --- any thread ---
  int64_t arriving() const noexcept { return arriving_.load(std::memory_order_seq_cst); }
  // True if the running step began without the decision.
  bool in_doubt() const noexcept { return in_doubt_.load(std::memory_order_relaxed); }
  int64_t waits() const noexcept { return waits_.load(std::memory_order_relaxed); }
  // Waits that ended without the decision; counted before the step begins.
  int64_t timeouts() const noexcept { return timeouts_.load(std::memory_order_acquire); }
  double seconds_waited() const noexcept {
    return static_cast<double>(waited_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }

 private:
  static constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

  void Wait(int64_t step) noexcept;
  bool OpensInTime(int64_t step) noexcept;

  const std::chrono::milliseconds patience_;
  std::atomic<int64_t> arriving_;
  std::atomic<int64_t> gate_{kOpen};
  std::atomic<bool> in_doubt_{false};
  std::atomic<int64_t> waits_{0};
  std::atomic<int64_t> timeouts_{0};
  std::atomic<int64_t> waited_ns_{0};
  int64_t doubted_gate_ = kOpen;  // step thread only: the gate at which patience ended
  Semaphore opened_;
};

}  // namespace stepwatch::step
