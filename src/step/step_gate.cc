#include "src/step/step_gate.h"

namespace stepwatch::step {

StepGate::StepGate(int64_t first_step, std::chrono::milliseconds patience)
    : patience_(patience), arriving_(first_step) {}

void StepGate::Wait(int64_t step) noexcept {
  const int64_t gate = gate_.load(std::memory_order_seq_cst);
  if (in_doubt() && gate == doubted_gate_) return;
  const auto start = std::chrono::steady_clock::now();
  waits_.fetch_add(1, std::memory_order_relaxed);
  const bool opened = OpensInTime(step);
  if (!opened) doubted_gate_ = gate;
  in_doubt_.store(!opened, std::memory_order_relaxed);
  if (!opened) timeouts_.fetch_add(1, std::memory_order_release);
  waited_ns_.fetch_add(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count(),
      std::memory_order_relaxed);
}

bool StepGate::OpensInTime(int64_t step) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  // Posts of earlier gates only cause one more iteration.
  while (step >= gate_.load(std::memory_order_seq_cst))
    if (!opened_.TakeUntil(deadline)) return step < gate_.load(std::memory_order_seq_cst);
  return true;
}

}  // namespace stepwatch::step
