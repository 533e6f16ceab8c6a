// The hook that sees the un-reduced gradient of one parameter.
//
// It hangs on the tensor, where torch calls it after an accumulation, and not on the node that accumulates: autograd
// holds that node weakly, and a node that somebody keeps alive refuses gradients of another shape once the tensor gets
// other data. Torch has one place for such a hook. One that is there already is kept and called
// after ours; one that is put there later takes ours off, which IsHung tells.
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
