// A string of bytes read as a tensor: any dtype, shape, strides, alignment and values, now and then a view that is
// wrong in itself.
#pragma once

#include <string>
#include <vector>

#include "stepwatch/tensor_view.h"
#include "tests/fuzz/byte_reader.h"

namespace stepwatch::test {

// The view and the memory under it, which ends exactly where the view does.
struct OwnedTensor {
  std::vector<std::byte> memory;
  TensorView view;
};

// At most some 200,000 elements, so that some tensors have several chunks and most inputs are quick.
OwnedTensor TensorFromBytes(ByteReader* bytes);
// The same with the shape of another.
OwnedTensor TensorFromBytes(ByteReader* bytes, const TensorView& shape_of);

// "torch.float32 3/1 4/3": sizes and strides.
std::string Describe(const TensorView& view);

}  // namespace stepwatch::test
