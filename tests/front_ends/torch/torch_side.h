// LibTorch's front end, with the context that its hooks share. Catch2 comes last: LibTorch has a macro CHECK as well.
#pragma once

#include <ATen/ATen.h>

#include "front_ends/torch/context.h"
#include "front_ends/torch/torch_graph.h"
#include "tests/catch.h"
#include "tests/front_ends/shared/text_recorder.h"

namespace stepwatch::tests {

struct Side {
  using Context = torch_front::Context;
  using Tensors = torch_front::TorchTensors;
  using Graph = torch_front::TorchGraph;
  using Tensor = at::Tensor;

  static at::Tensor Make(float number) { return at::full({}, number); }

  static at::Tensor Leaf() { return at::ones({2, 3}).requires_grad_(); }
  static at::Tensor Times(const at::Tensor& a, float factor) { return a * factor; }
  static at::Tensor Plus(const at::Tensor& a, const at::Tensor& b) { return a + b; }
  static at::Tensor ViewOf(const at::Tensor& base) { return base.t(); }
  static void WriteTimes(const at::Tensor& view, float factor) { view.mul_(factor); }
  static void Backward(const at::Tensor& result) { result.backward(at::ones_like(result)); }
};

}  // namespace stepwatch::tests
