#include "tests/kernels/cuda/device_tensor.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "kernels/cuda/order.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::kAllDTypes;
using kernels::test::kAllFills;
using kernels::test::RandomStrides;

std::vector<int64_t> RandomSizes(std::mt19937_64* random) {
  std::vector<int64_t> sizes(static_cast<size_t>(Below(kDimsMax + 1, random)));
  const bool large = Below(8, random) == 0;
  const int64_t largest = sizes.size() <= 1   ? (large ? 200000 : 3000)
                          : sizes.size() <= 2 ? (large ? 500 : 60)
                          : sizes.size() <= 4 ? (large ? 20 : 7)
                                              : 3;
  for (int64_t& size : sizes) size = Below(30, random) == 0 ? 0 : 1 + Below(largest, random);
  if (sizes.size() >= 2 && Below(3, random) == 0) sizes.back() = (sizes.back() + 15) / 16 * 16;  // whole vectors
  return sizes;
}

// Memory for elements `lowest` to `highest` around the view's first.
DeviceTensor Allocate(DType dtype, int64_t lowest, int64_t highest, int shift, Fill fill, std::mt19937_64* random) {
  const auto data = kernels::test::RandomTensor(dtype, highest - lowest + 1, fill, random);
  DeviceTensor tensor;
  tensor.memory.resize(static_cast<size_t>(shift) + data.bytes.size());
  std::copy(data.bytes.begin(), data.bytes.end(), tensor.memory.begin() + shift);
  tensor.view.data = tensor.memory.data() + shift - lowest * ElementSize(dtype);
  tensor.view.dtype = dtype;
  tensor.view.device = Device{DeviceKind::kCuda, 0};
  return tensor;
}

}  // namespace

TensorView OnCpu(TensorView view) {
  view.device = Device{};
  return view;
}

DeviceTensor FlatTensor(DType dtype, int64_t count, int shift, Fill fill, std::mt19937_64* random) {
  DeviceTensor tensor = Allocate(dtype, 0, count - 1, shift, fill, random);
  tensor.view.numel = count;
  tensor.view.ndim = 1;
  tensor.view.sizes[0] = count;
  tensor.view.strides[0] = 1;
  return tensor;
}

DeviceTensor AnyTensor(std::mt19937_64* random) {
  const DType dtype = kAllDTypes[Below(std::size(kAllDTypes), random)];
  const std::vector<int64_t> sizes = RandomSizes(random), strides = RandomStrides(sizes, random);
  int64_t lowest = 0, highest = 0, numel = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t reach = std::max<int64_t>(sizes[i] - 1, 0) * strides[i];
    (reach < 0 ? lowest : highest) += reach;
    numel *= sizes[i];
  }
  const int shift = Below(2, random) == 0 ? 0 : static_cast<int>(Below(17, random));
  DeviceTensor tensor = Allocate(dtype, lowest, highest, shift, kAllFills[Below(std::size(kAllFills), random)], random);
  tensor.view.numel = numel;
  tensor.view.ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), tensor.view.sizes.begin());
  std::copy(strides.begin(), strides.end(), tensor.view.strides.begin());
  return tensor;
}

Statistics Expected(const TensorView& view, const MeasureOptions& options) {
  Statistics statistics;
  if (!reference::Measure(OnCpu(view), options, &statistics, OrderOf(view.dtype)).ok())
    throw std::runtime_error("the reference refuses " + Describe(view));
  return statistics;
}

}  // namespace stepwatch::kernels::cuda::test
