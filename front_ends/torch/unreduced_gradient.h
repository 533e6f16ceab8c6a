// The hook that observes the un-reduced gradient of one parameter.
//
// It is on the tensor, where torch calls it after an accumulation, and not on the node that accumulates: autograd holds
// that node weakly, and a node that is kept alive rejects gradients of another shape once the tensor gets other data.
// Torch has one place for such a hook. An existing hook is kept and called after ours; a later one replaces ours, which
// IsHung detects.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "front_ends/shared/unreduced_rows.h"
#include "front_ends/torch/context.h"

namespace stepwatch::torch_front {

class UnreducedGradient : public std::enable_shared_from_this<UnreducedGradient> {
 public:
  explicit UnreducedGradient(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  // Step thread, outside of backward passes.
  void Hang(const at::Tensor& parameter);
  void TakeOff(const at::Tensor& parameter) noexcept;
  bool IsHung() const { return hook_ != nullptr; }

  front_end::UnreducedRows rows;

 private:
  class Hook;

  void OnAccumulated(const at::Tensor& parameter) noexcept;

  const std::shared_ptr<Context> context_;
  Hook* hook_ = nullptr;  // owned by the tensor
};

}  // namespace stepwatch::torch_front
