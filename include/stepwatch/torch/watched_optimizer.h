// Watched<Optimizer>: an optimizer of torch::optim (or yours, derived from it) whose step the monitor can see.
//
//   stepwatch::Watched<torch::optim::AdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
//
// It stays a torch::optim::AdamW in every other way: schedulers, parameter groups, save and load, closures.
//
// A class of yours whose step does more than to update is best made of a watched one:
//
//   struct Clipping : stepwatch::Watched<torch::optim::SGD> {
//     using Watched::Watched;
//     torch::Tensor step(LossClosure closure = nullptr) override {
//       torch::nn::utils::clip_grad_norm_(param_groups()[0].params(), 1.0);
//       return Watched::step(std::move(closure));  // here gradients are read, and weights before and after
//     }
//   };
//
// Inside of Watched<Yours> nobody sees where the update begins. Its gradients are read when the step is over, or its
// closure runs again, and give no rows where they are gone by then; mg_direction gives none.
#pragma once

#include <torch/optim/optimizer.h>

#include <type_traits>
#include <typeinfo>
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

  const std::type_info& watched_type() const noexcept override { return typeid(Optimizer); }

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
