#include "tests/fuzz/tensor_from_bytes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace stepwatch::test {
namespace {

using Extents = std::vector<int64_t>;

constexpr int64_t kElementsMax = 200'000;
constexpr int64_t kSpanMax = 1 << 20;  // of the memory under a view, in elements

DType TakeDType(ByteReader* bytes) {
  const int64_t choice = bytes->Below(250);
  return choice == 249 ? DType::kOther : kernels::test::kAllDTypes[static_cast<size_t>(choice) % 12];
}

Extents TakeSizes(ByteReader* bytes) {
  Extents sizes(static_cast<size_t>(bytes->Below(kDimsMax + 1)));
  int64_t room = kElementsMax;
  for (int64_t& size : sizes) {
    if (bytes->OneIn(32)) {
      size = 0;
    } else if (sizes.size() == 1) {
      size = 1 + bytes->Below(kElementsMax, bytes->OneIn(4) ? 3 : 1);
    } else {
      size = 1 + bytes->Below(sizes.size() == 2 ? 700 : sizes.size() <= 4 ? 20 : 5, 2);
    }
    size = std::min(size, std::max<int64_t>(room, 1));
    room /= std::max<int64_t>(size, 1);
  }
  return sizes;
}

// Dense in some order of the dimensions, then perhaps with gaps, repeats, arbitrary or negative strides.
Extents TakeStrides(const Extents& sizes, ByteReader* bytes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (bytes->OneIn(2))
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(bytes->Below(static_cast<int64_t>(i)))]);
  const bool gaps = bytes->OneIn(2), repeats = bytes->OneIn(3), wild = bytes->OneIn(5);
  Extents strides(sizes.size());
  int64_t stride = gaps ? 1 + bytes->Below(3) : 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    strides[dim] = wild ? bytes->Below(9) - 2 : stride;
    if (repeats && bytes->OneIn(2)) strides[dim] = 0;
    stride *= std::max<int64_t>(sizes[dim], 1);
    if (gaps && bytes->OneIn(2)) stride += bytes->Below(5);
  }
  return strides;
}

Extents DenseStrides(const Extents& sizes) {
  const TensorView dense = DenseView(nullptr, DType::kFloat32, sizes.data(), static_cast<int>(sizes.size()));
  return Extents(dense.strides.begin(), dense.strides.begin() + dense.ndim);
}

// `count` elements: random ones of one kind or the bytes themselves again and again, then single ones planted.
std::vector<std::byte> TakeData(DType dtype, int64_t count, ByteReader* bytes) {
  const size_t size = static_cast<size_t>(ElementSize(dtype));
  const size_t kind = static_cast<size_t>(bytes->Below(std::size(kernels::test::kAllFills) + 1));
  std::vector<std::byte> data(static_cast<size_t>(count) * size);
  if (kind < std::size(kernels::test::kAllFills)) {
    std::mt19937_64 random(bytes->Number(4));
    data = kernels::test::RandomTensor(dtype, count, kernels::test::kAllFills[kind], &random).bytes;
  } else {
    std::vector<std::byte> pattern(1 + static_cast<size_t>(bytes->Below(64)));
    for (std::byte& byte : pattern) byte = static_cast<std::byte>(bytes->Byte());
    for (size_t i = 0; i < data.size(); ++i) data[i] = pattern[i % pattern.size()];
  }
  for (int64_t planted = bytes->Below(6); planted > 0; --planted) {
    const size_t at = static_cast<size_t>(bytes->Below(count, 3));
    const uint64_t code = bytes->Number(static_cast<int>(size));
    std::memcpy(data.data() + at * size, &code, size);
  }
  return data;
}

// One in some hundred views contradicts itself.
void PerhapsSpoil(TensorView* view, ByteReader* bytes) {
  const uint8_t choice = bytes->Byte();
  if (choice == 255) ++view->numel;
  if (choice == 254) view->ndim = kDimsMax + 1;
  if (choice == 253) view->data = nullptr;
  if (choice == 252 && view->ndim > 0) view->sizes[0] = -1;
  if (choice == 251) view->device.kind = DeviceKind::kCuda;
}

OwnedTensor MakeTensor(const Extents& sizes, ByteReader* bytes) {
  const DType dtype = TakeDType(bytes);
  const DType stored = dtype == DType::kOther ? DType::kFloat32 : dtype;
  Extents strides = TakeStrides(sizes, bytes);
  if (kernels::test::SpanOf(sizes, strides) > kSpanMax) strides = DenseStrides(sizes);
  const std::vector<std::byte> data = TakeData(stored, kernels::test::SpanOf(sizes, strides), bytes);
  const size_t shift = static_cast<size_t>(bytes->Below(65));
  OwnedTensor tensor = kernels::test::StridedTensor(stored, sizes, strides, shift, data);
  tensor.view.dtype = dtype;
  PerhapsSpoil(&tensor.view, bytes);
  return tensor;
}

}  // namespace

OwnedTensor TensorFromBytes(ByteReader* bytes) {
  return MakeTensor(TakeSizes(bytes), bytes);
}

OwnedTensor TensorFromBytes(ByteReader* bytes, const TensorView& shape_of) {
  const int ndim = std::clamp(shape_of.ndim, 0, kDimsMax);
  Extents sizes(shape_of.sizes.begin(), shape_of.sizes.begin() + ndim);
  for (int64_t& size : sizes) size = std::max<int64_t>(size, 0);
  return MakeTensor(sizes, bytes);
}

}  // namespace stepwatch::test
