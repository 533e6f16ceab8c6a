// A string of bytes read as a tensor: any dtype, shape, strides, alignment and values, now and then a view that is
// wrong in itself.
#pragma once

#include "tests/fuzz/byte_reader.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::test {

using kernels::test::OwnedTensor;

// At most some 200,000 elements, so that some tensors have several chunks and most inputs are quick.
OwnedTensor TensorFromBytes(ByteReader* bytes);
// The same with the shape of another.
OwnedTensor TensorFromBytes(ByteReader* bytes, const TensorView& shape_of);

}  // namespace stepwatch::test
