// Tensors of zeros without memory of their own size.
#pragma once

#include "stepwatch/tensor_view.h"

namespace stepwatch::python {

// Returns a tensor of this shape and dtype whose elements are all the same zero in CPU memory, for a tensor on any
// device.
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
