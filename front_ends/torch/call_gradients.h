// The LibTorch side of a call's gradients: its tensors, and the hooks in autograd's graph that deliver them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "front_ends/shared/call_gradients.h"
#include "front_ends/torch/context.h"
#include "front_ends/torch/input_consumers.h"

namespace stepwatch::torch_front {

struct TorchTensors {
  using Context = torch_front::Context;
  using Handle = at::Tensor;
  using Given = const at::Tensor&;
  using Mutex = std::mutex;

  static bool IsNone(const at::Tensor& gradient) { return !gradient.defined(); }
  static at::Tensor Detach(const at::Tensor& gradient) { return gradient.detach(); }
  static at::Tensor Add(const at::Tensor& sum, const at::Tensor& part);
  static const at::Tensor& Give(const at::Tensor& sum) { return sum; }
  static std::string Describe(const Context& context, const at::Tensor& gradient);
};

// Each function adds hooks that share `gradients`: on a node that uses inputs, on an output, and on an output that is
// an input returned unchanged.
void HangOn(const Consumer& consumer, const std::shared_ptr<CallGradients>& gradients);
void HangOnOutput(const at::Tensor& output, uint16_t element, const std::shared_ptr<CallGradients>& gradients);
void HangOnReturnedInput(const at::Tensor& output, uint16_t element, const std::shared_ptr<CallGradients>& gradients);

}  // namespace stepwatch::torch_front
