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

// With a closure, gradients exist only once it has run: the first time it returns is the moment before the update.
class OptimizerStep {
 public:
  using LossClosure = std::function<at::Tensor()>;

  OptimizerStep(OptimizerTap& tap, torch::optim::Optimizer& optimizer) : tap_(tap), optimizer_(optimizer) {}
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  // What to hand to the optimizer instead of the closure.
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
