#include "tests/kernels/cuda/device_tensor.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "kernels/cuda/order.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::kAllDTypes;
using kernels::test::kAllFills;

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

// Dense in a random order of dimensions, then perhaps with gaps, pitches, repeats, arbitrary or negative strides.
std::vector<int64_t> RandomStrides(const std::vector<int64_t>& sizes, std::mt19937_64* random) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (Below(3, random) == 0) std::shuffle(order.begin(), order.end(), *random);
  const bool gaps = Below(2, random) == 0, wild = Below(5, random) == 0, repeats = Below(4, random) == 0;
  const int64_t unit = Below(2, random) == 0 ? 16 : 1;  // of gaps
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = gaps && Below(4, random) == 0 ? 1 + Below(3, random) : 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    strides[dim] = stride;
    if (wild) strides[dim] = Below(9, random) - 2;
    if (repeats && Below(2, random) == 0) strides[dim] = 0;
    stride *= std::max<int64_t>(sizes[dim], 1);
    if (gaps && Below(2, random) == 0) stride += unit * Below(4, random);
  }
  return strides;
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

int64_t Below(int64_t bound, std::mt19937_64* random) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(bound));
}

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

std::string Describe(const TensorView& view) {
  std::string text = DTypeName(view.dtype);
  for (size_t i = 0; i < static_cast<size_t>(view.ndim); ++i)
    text += " " + std::to_string(view.sizes[i]) + "/" + std::to_string(view.strides[i]);
  return text + " at " + std::to_string(reinterpret_cast<uintptr_t>(view.data) % 16);
}

Statistics Expected(const TensorView& view, const MeasureOptions& options) {
  Statistics statistics;
  if (!reference::Measure(OnCpu(view), options, &statistics, OrderOf(view.dtype)).ok())
    throw std::runtime_error("the reference refuses " + Describe(view));
  return statistics;
}

}  // namespace stepwatch::kernels::cuda::test
