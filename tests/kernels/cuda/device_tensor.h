// Tensors of the emulated device, random in all that a layout can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/device_engine.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::kernels::cuda::test {

using kernels::test::Below;
using kernels::test::Describe;
using kernels::test::Fill;

// Its view is on CUDA device 0.
using DeviceTensor = kernels::test::OwnedTensor;

// The same data, for the reference.
TensorView OnCpu(TensorView view);

// `count` elements side by side, `shift` bytes after an address that is a multiple of 16.
DeviceTensor FlatTensor(DType dtype, int64_t count, int shift, Fill fill, std::mt19937_64* random);

// Any dtype, sizes, strides, address and data; mostly small, now and then of several tiles.
DeviceTensor AnyTensor(std::mt19937_64* random);

// The statistics of the reference in the order of the tiles.
Statistics Expected(const TensorView& view, const MeasureOptions& options);

}  // namespace stepwatch::kernels::cuda::test
