// Tensors of zeros that nobody has to make.
#pragma once

#include "stepwatch/tensor_view.h"

namespace stepwatch::python {

// Returns a tensor of this shape and dtype whose elements are all one zero in CPU memory, wherever the tensor is.
inline TensorView ZerosLike(const TensorView& tensor) {
  static constexpr double kZero = 0;  // all bits are zero: a zero of every dtype
  TensorView zeros = tensor;
  zeros.data = &kZero;
  zeros.strides.fill(0);
  zeros.device = {};
  zeros.stream = nullptr;
  return zeros;
}

}  // namespace stepwatch::python
