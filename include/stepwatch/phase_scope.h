// Sets a phase for the length of a block.
//
//   {
//     stepwatch::PhaseScope evaluating(&monitor, stepwatch::Phase::kEval);
//     Evaluate(model);
//   }  // restores the previous phase
#pragma once

#include <chrono>

#include "stepwatch/monitor.h"

namespace stepwatch {

// Step thread. Scopes nest: each restores the phase that it found, with its original time of expiry. The monitor must
// outlive the scope; null: the scope does nothing.
class PhaseScope {
 public:
  explicit PhaseScope(Monitor* monitor, Phase phase,
                      std::chrono::milliseconds expires = std::chrono::milliseconds(0)) noexcept
      : monitor_(monitor) {
    if (monitor_ != nullptr) before_ = monitor_->SetPhase(phase, expires);
  }
  ~PhaseScope() {
    if (monitor_ != nullptr) monitor_->RestorePhase(before_);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Monitor* const monitor_;
  PhaseMark before_;
};

}  // namespace stepwatch
