// Detects by a process's own pace that it has stopped making steps. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "operations/discovery/pulse_source.h"
#include "src/base/retry.h"

namespace stepwatch::operations {

// Triggers a closer look, sooner than a detector raises "stuck", so that the result is there when it decides.
class Standstill {
 public:
  void OnLook(const PulseLook& look, double now);
  // It trains, and its step takes much longer than is usual.
  bool Stands(double now) const;
  // A closer look is due, and this is it: one when it begins to stand, and then less and less often.
  bool TakeTurn(double now);

 private:
  double Typical() const;

  static constexpr size_t kStepsKept = 16;
  std::array<double, kStepsKept> seconds_{};  // a step, the last ones
  size_t steps_ = 0;
  std::optional<int64_t> step_;
  double stepped_at_ = 0;
  bool is_training_ = false;
  double next_turn_ = 0;
  base::Retry turns_{20, 600};
};

}  // namespace stepwatch::operations
