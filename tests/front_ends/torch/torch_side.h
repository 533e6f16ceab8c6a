// LibTorch's front end, with the context that its hooks share. Catch2 comes last: LibTorch has a macro CHECK as well.
#pragma once

#include <ATen/ops/full.h>

#include "front_ends/torch/call_gradients.h"
#include "front_ends/torch/context.h"
#include "tests/catch.h"
#include "tests/front_ends/shared/text_recorder.h"

namespace stepwatch::tests {

struct Side {
  using Context = torch_front::Context;
  using Tensors = torch_front::TorchTensors;
  static at::Tensor Make(float number) { return at::full({}, number); }
};

}  // namespace stepwatch::tests
