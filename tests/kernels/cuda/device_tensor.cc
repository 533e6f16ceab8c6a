#include "tests/kernels/cuda/device_tensor.h"

#include <iterator>
#include <stdexcept>

#include "kernels/cuda/order.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::kAllDTypes;
using kernels::test::kAllFills;
using kernels::test::RandomStrides;
using kernels::test::StridedTensor;

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

DeviceTensor OnDevice(DeviceTensor tensor) {
  tensor.view.device = Device{DeviceKind::kCuda, 0};
  return tensor;
}

}  // namespace

TensorView OnCpu(TensorView view) {
  view.device = Device{};
  return view;
}

DeviceTensor FlatTensor(DType dtype, int64_t count, int shift, Fill fill, std::mt19937_64* random) {
  return OnDevice(StridedTensor(dtype, {count}, {1}, static_cast<size_t>(shift), fill, random));
}

DeviceTensor AnyTensor(std::mt19937_64* random) {
  const DType dtype = kAllDTypes[Below(std::size(kAllDTypes), random)];
  const std::vector<int64_t> sizes = RandomSizes(random), strides = RandomStrides(sizes, random);
  const size_t shift = Below(2, random) == 0 ? 0 : static_cast<size_t>(Below(17, random));
  const Fill fill = kAllFills[Below(std::size(kAllFills), random)];
  return OnDevice(StridedTensor(dtype, sizes, strides, shift, fill, random));
}

Statistics Expected(const TensorView& view, const MeasureOptions& options) {
  Statistics statistics;
  if (!reference::Measure(OnCpu(view), options, &statistics, OrderOf(view.dtype)).ok())
    throw std::runtime_error("the reference refuses " + Describe(view));
  return statistics;
}

}  // namespace stepwatch::kernels::cuda::test
