#include "src/step/step_gate.h"

#include <cerrno>
#include <ctime>

namespace stepwatch::step {

StepGate::StepGate(int64_t first_step, std::chrono::milliseconds patience)
    : patience_(patience), arriving_(first_step) {
  sem_init(&opened_, 0, 0);
}

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
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const int64_t nanoseconds = until.tv_nsec + (patience_.count() % 1000) * 1'000'000;
  until.tv_sec += static_cast<time_t>(patience_.count() / 1000 + nanoseconds / 1'000'000'000);
  until.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  // Posts of earlier gates only make one round more.
  while (step >= gate_.load(std::memory_order_seq_cst))
    if (sem_clockwait(&opened_, CLOCK_MONOTONIC, &until) != 0 && errno != EINTR)
      return step < gate_.load(std::memory_order_seq_cst);
  return true;
}

}  // namespace stepwatch::step
