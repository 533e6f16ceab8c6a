// From at::Tensor to what the core sees.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "stepwatch/tensor_view.h"

namespace stepwatch::torch_front {

DType DTypeOf(const at::Tensor& tensor);

struct SeenTensor {
  TensorView view;
  at::Tensor kept;      // owns the memory when the tensor had to be rewritten to be read
  const char* problem;  // null, or why the tensor cannot be measured: the view is then empty, of dtype kOther
};

// Runs no operation on the tensor, except for one that is lazily negated. The stream of a CUDA tensor is the current
// one of its device. Throws what torch throws.
SeenTensor See(const at::Tensor& tensor);

// The current stream of a CUDA device.
void* CurrentStream(int device);

// "size=(5, 4), dtype=torch.float32"
std::string DescribeTensor(const at::Tensor& tensor);

}  // namespace stepwatch::torch_front
