// Watched<Optimizer>: an optimizer of torch::optim (or yours, derived from it) whose step the monitor can see.
//
//   stepwatch::Watched<torch::optim::AdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
//
// It stays a torch::optim::AdamW in every other way: schedulers, parameter groups, save and load, closures.
#pragma once

#include <torch/optim/optimizer.h>

#include <type_traits>
#include <utility>

#include "stepwatch/torch/optimizer_step.h"
#include "stepwatch/torch/tap_point.h"
#include "stepwatch/torch/watched_module.h"

namespace stepwatch {
template <class Optimizer>
class Watched<Optimizer, std::enable_if_t<std::is_base_of_v<torch::optim::Optimizer, Optimizer>>>
    : public Optimizer, public OptimizerPoint {
  static_assert(!std::is_base_of_v<OptimizerPoint, Optimizer>, "this optimizer is watched already");

 public:
  using Optimizer::Optimizer;

  torch::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override {
    OptimizerTap* tap = this->tap();
    if (tap == nullptr) return Optimizer::step(std::move(closure));
    detail::OptimizerStep step(*tap, *this);
    torch::Tensor loss = Optimizer::step(step.Before(std::move(closure)));
    step.After();
    return loss;
  }
};

}  // namespace stepwatch
