// Detects by a process's own pace that it no longer makes steps. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "operations/discovery/pulse_source.h"
#include "src/base/retry.h"

namespace stepwatch::operations {

// Triggers a closer look before a detector raises "stuck", so that its result is there for the decision.
class Standstill {
 public:
  void OnLook(const PulseLook& look, double now);
  // True if it trains, and its step takes much longer than usual.
  bool Stands(double now) const;
  // True if a closer look is due, and counts it: one when the standstill begins, then less and less often.
  bool TakeTurn(double now);

 private:
  double Typical() const;

  static constexpr size_t kStepsKept = 16;
  std::array<double, kStepsKept> seconds_{};  // per step, the last ones
  size_t steps_ = 0;
  std::optional<int64_t> step_;
  double stepped_at_ = 0;
  bool is_training_ = false;
  double next_turn_ = 0;
  base::Retry turns_{20, 600};
};

}  // namespace stepwatch::operations
