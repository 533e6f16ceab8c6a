// Whether a process has stopped making steps, by its own pace. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "operations/discovery/pulse_source.h"

namespace stepwatch::operations {

// No verdict, only a reason to look more closely: sooner than a detector may say "stuck", so that what a look finds is
// there when it decides.
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
  double turn_seconds_ = 0;
};

}  // namespace stepwatch::operations
