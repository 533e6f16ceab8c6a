// The attachment to one watched optimizer: notifies the monitor before and after the update.
#pragma once

#include <functional>

#include "stepwatch/torch/tap_point.h"

namespace torch::optim {
class Optimizer;
}

namespace stepwatch {

// They must not throw.
struct OptimizerEvents {
  std::function<void(torch::optim::Optimizer&)> before;  // gradients are ready, the update has not begun
  std::function<void()> again;                           // after `before`: the closure is about to run again
  std::function<void()> resumes;                         // after `again`: the closure has run
  std::function<void()> after;                           // after `before`: the update is over
  std::function<void()> abandoned;                       // in place of `after`: the step has thrown
};

class OptimizerTap {
 public:
  OptimizerTap(OptimizerPoint* point, OptimizerEvents events);
  ~OptimizerTap() { Detach(); }
  OptimizerTap(const OptimizerTap&) = delete;
  OptimizerTap& operator=(const OptimizerTap&) = delete;

  static bool IsAttached(const OptimizerPoint& point) { return point.tap() != nullptr; }
  void Detach() noexcept;
  // The optimizer was moved to `point`, or destroyed (null).
  void PointMoved(OptimizerPoint* point) noexcept { point_ = point; }

  const OptimizerEvents& events() const { return events_; }
  OptimizerPoint* point() const noexcept { return point_; }  // null: the optimizer is gone

 private:
  OptimizerPoint* point_;
  const OptimizerEvents events_;
};

}  // namespace stepwatch
