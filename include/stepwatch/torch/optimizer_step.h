// One step of a watched optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace torch::optim {
class Optimizer;
}

namespace stepwatch {

class OptimizerTap;

namespace detail {

// With a closure, gradients exist only once it has run: its first return is the moment before the update.
class OptimizerStep {
 public:
  using LossClosure = std::function<at::Tensor()>;

  OptimizerStep(OptimizerTap& tap, torch::optim::Optimizer& optimizer) : tap_(tap), optimizer_(optimizer) {}
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  // Returns the closure for the optimizer to run in place of `closure`.
  LossClosure Before(LossClosure closure);
  void After() noexcept;

 private:
  OptimizerTap& tap_;
  torch::optim::Optimizer& optimizer_;
  bool seen_ = false;
  bool is_over_ = false;
};

}  // namespace detail
}  // namespace stepwatch
