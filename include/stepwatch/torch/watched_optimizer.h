// Watched<Optimizer>: an optimizer of torch::optim (or yours, derived from it) whose step the monitor can observe.
//
//   stepwatch::Watched<torch::optim::AdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
//
// In every other way it remains a torch::optim::AdamW: schedulers, parameter groups, save and load, closures.
//
// Derive a class whose step does more than the update from a watched one:
//
//   struct Clipping : stepwatch::Watched<torch::optim::SGD> {
//     using Watched::Watched;
//     torch::Tensor step(LossClosure closure = nullptr) override {
//       torch::nn::utils::clip_grad_norm_(param_groups()[0].params(), 1.0);
//       return Watched::step(std::move(closure));  // reads gradients, and weights before and after
//     }
//   };
//
// Inside Watched<Yours> the monitor cannot see where the update begins. It reads the gradients when the step ends or
// the closure runs again; gradients that are gone by then have no rows, and mg_direction never has rows.
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
