// Counts the time of a block as a part of the training step.
//
//   {
//     stepwatch::PartScope waiting(&monitor.core(), stepwatch::StepPart::kData);
//     batch = *++batches;
//   }  // restores the previous part
#pragma once

#include "stepwatch/monitor.h"

namespace stepwatch {

// Training thread. Scopes nest: time belongs to the innermost. The monitor must outlive the scope; null: the scope does
// nothing.
class PartScope {
 public:
  PartScope(Monitor* monitor, StepPart part) noexcept : monitor_(monitor) {
    if (monitor_ != nullptr) before_ = monitor_->EnterPart(part);
  }
  ~PartScope() {
    if (monitor_ != nullptr) (void)monitor_->EnterPart(before_);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  Monitor* const monitor_;
  StepPart before_ = StepPart::kRest;
};

}  // namespace stepwatch
