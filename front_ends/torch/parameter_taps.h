// Observes parameters: gradients as backward accumulates them, and gradient, weight and moments around the update.
//
// Parameters are held weakly: a model may be freed while the monitor lives. All calls are on the step thread, except
// the gradient hooks, which autograd may run on threads of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "front_ends/shared/tensor_batch.h"
#include "front_ends/torch/context.h"
#include "front_ends/torch/model_index.h"
#include "front_ends/torch/model_snapshot.h"
#include "stepwatch/record_layout.h"

namespace torch::optim {
class Optimizer;
}

namespace stepwatch::torch_front {

struct ParameterTap;  // one parameter

class ParameterTaps {
 public:
  explicit ParameterTaps(std::shared_ptr<Context> context);
  ~ParameterTaps();

  // The parameters in the order of SiteIndex::parameters. `are_own`: for each optimizer, true if the program defines
  // its class, whose step may clip or compute gradients before it updates.
  void Build(const std::vector<at::Tensor>& parameters, const Shares& shares, std::vector<bool> are_own);
  // The model has other tensors under the same names (undefined where there is none), or its optimizers have other
  // shares of them. The sites stay.
  void Rebind(const std::vector<at::Tensor>& parameters, const Shares& shares);
  bool IsBound(size_t parameter, const at::Tensor& tensor) const;
  // As set last.
  const Shares& shares() const { return shares_; }
  // Null: no site is wanted any more.
  void Swap(const RecordLayout* layout) noexcept;

  void BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept;
  // The closure of the update is about to run again.
  void RepeatClosure(size_t optimizer) noexcept;
  void AfterUpdate(size_t optimizer) noexcept;
  // The update has thrown.
  void AbandonUpdate(size_t optimizer) noexcept;
  // Before the frame closes: records gradients that no update has followed.
  void BeforeEndOfStep() noexcept;

 private:
  void Share(const Shares& shares, size_t optimizer_count);
  void Add(SiteKind kind, const ParameterTap& tap, const at::Tensor& tensor);
  void ObserveBatch(Recorder& recorder) noexcept;
  void CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object, bool is_own);
  void CollectGradient(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter);
  void CollectOwed(Recorder& recorder, size_t optimizer);
  void CollectState(Recorder& recorder, const ParameterTap& tap, const at::Tensor& parameter,
                    torch::optim::Optimizer& object, bool is_own);
  void WarnNoOptimizer();
  void WarnIfNoMoments(torch::optim::Optimizer& object, size_t optimizer);

  const std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<ParameterTap>> taps_;
  std::vector<std::vector<ParameterTap*>> of_optimizer_;
  std::vector<bool> are_own_;
  Shares shares_;
  bool warned_no_optimizer_ = false;
  std::vector<bool> warned_no_moments_;  // by optimizer
  // State of the running optimizer step.
  front_end::TensorBatch<at::Tensor> batch_;
  bool active_ = false;
  bool wants_moments_ = false;
};

}  // namespace stepwatch::torch_front
