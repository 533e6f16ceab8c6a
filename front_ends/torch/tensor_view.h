// Converts an at::Tensor to the core's TensorView.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "stepwatch/tensor_view.h"

namespace stepwatch::torch_front {

DType DTypeOf(const at::Tensor& tensor);

struct SeenTensor {
  TensorView view;
  at::Tensor kept;      // owns the memory if the tensor had to be copied to be read
  const char* problem;  // null, or why the tensor cannot be measured: the view is then empty, of dtype kOther
};

// Runs no operation on the tensor, unless it is lazily negated. The stream of a CUDA tensor is the current one of its
// device. Throws torch's exceptions.
SeenTensor See(const at::Tensor& tensor);

// The current stream of a CUDA device.
void* CurrentStream(int device);

// "size=(5, 4), dtype=torch.float32"
std::string DescribeTensor(const at::Tensor& tensor);

}  // namespace stepwatch::torch_front
