// What is seen of parameters: gradients as backward accumulates them, and gradient, weight and moments around the
// update.
//
// Parameters are held weakly: a model may be freed while the monitor lives. All calls belong to the step thread, except
// for the gradient hooks, which autograd may run on threads of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "front_ends/torch/context.h"
#include "front_ends/torch/tensor_batch.h"
#include "stepwatch/record_layout.h"

namespace torch::optim {
class Optimizer;
}

namespace stepwatch::torch_front {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct ParameterTap;  // one parameter

class ParameterTaps {
 public:
  explicit ParameterTaps(std::shared_ptr<Context> context);
  ~ParameterTaps();

  // The parameters in the order of SiteIndex::parameters, and for each the position of the optimizer that updates it,
  // -1 for none.
  void Build(const std::vector<at::Tensor>& parameters, const std::vector<int>& optimizers, size_t optimizer_count);
  // Null: nothing is wanted any more.
  void Swap(const RecordLayout* layout) noexcept;

  void BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept;
  void AfterUpdate(size_t optimizer) noexcept;
  // Before the frame closes: gradients of parameters that no attached optimizer updates.
  void BeforeEndOfStep() noexcept;

 private:
  void CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object);
  void CollectState(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter,
                    torch::optim::Optimizer& object);
  void SayIfNoMoments(torch::optim::Optimizer& object, size_t optimizer);

  const std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<ParameterTap>> taps_;
  std::vector<std::vector<ParameterTap*>> of_optimizer_;
  std::vector<ParameterTap*> without_optimizer_;
  std::vector<bool> said_no_moments_;  // by optimizer
  TensorBatch batch_;                  // of the optimizer that is stepping
  bool active_ = false;
  bool wants_moments_ = false;
};

}  // namespace stepwatch::torch_front
