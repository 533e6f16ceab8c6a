#include "kernels/layout.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace stepwatch::kernels {
namespace {

struct Dim {
  int64_t size;
  int64_t stride;
};

using Dims = std::array<Dim, kDimsMax>;

Status CheckReadable(const TensorView& tensor) {
  if (tensor.device.kind != DeviceKind::kCpu)
    return Status(StatusCode::kUnsupported, "only tensors in CPU memory can be measured by this build");
  if (ElementSize(tensor.dtype) == 0)
    return Status(StatusCode::kUnsupported, std::string("no statistics for the dtype ") + DTypeName(tensor.dtype) +
                                                "; accepted: floating point, integer and bool tensors");
  return Status();
}

// The element count implied by `sizes`, or -1 if they are negative or overflow.
int64_t CountElements(const TensorView& tensor) {
  int64_t count = 1;
  bool overflow = false;
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t size = tensor.sizes[static_cast<size_t>(i)];
    if (size < 0) return -1;
    if (size == 0) return 0;
    overflow |= __builtin_mul_overflow(count, size, &count);
  }
  return overflow ? -1 : count;
}

Status CheckConsistent(const TensorView& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kDimsMax)
    return Status(StatusCode::kInvalid, "a tensor view has " + std::to_string(tensor.ndim) +
                                            " dimensions; accepted: 0 to " + std::to_string(kDimsMax));
  const int64_t count = CountElements(tensor);
  if (count < 0 || count != tensor.numel)
    return Status(StatusCode::kInvalid,
                  "a tensor view has numel " + std::to_string(tensor.numel) + ", which its sizes contradict");
  if (count > 0 && tensor.data == nullptr)
    return Status(StatusCode::kInvalid, "a tensor view with " + std::to_string(count) + " elements has no address");
  return Status();
}

// The dimensions with more than one element, in logical order.
int RealDims(const TensorView& tensor, Dims* dims) {
  int ndim = 0;
  for (size_t i = 0; i < static_cast<size_t>(tensor.ndim); ++i)
    if (tensor.sizes[i] != 1) (*dims)[static_cast<size_t>(ndim++)] = {tensor.sizes[i], tensor.strides[i]};
  return ndim;
}

// `expected` only grows (no size is 1), so no dimension is found twice.
bool IsDense(const Dims& dims, int ndim) {
  const auto end = dims.begin() + ndim;
  int64_t expected = 1;
  for (int placed = 0; placed < ndim; ++placed) {
    const auto next = std::find_if(dims.begin(), end, [expected](const Dim& dim) { return dim.stride == expected; });
    if (next == end) return false;
    expected *= next->size;
  }
  return true;
}

// The layout of most tensors; a cheaper check than IsDense.
bool IsRowMajor(const TensorView& tensor) {
  int64_t expected = 1;
  for (size_t i = static_cast<size_t>(tensor.ndim); i-- > 0;) {
    if (tensor.sizes[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

void SetFlat(int64_t count, Layout* layout) {
  layout->ndim = 1;
  layout->sizes[0] = count;
  layout->strides[0] = 1;
}

void SetMerged(const Dims& dims, int ndim, Layout* layout) {
  layout->ndim = 0;
  for (size_t i = 0; i < static_cast<size_t>(ndim); ++i) {
    const size_t outer = static_cast<size_t>(layout->ndim - 1);
    if (layout->ndim > 0 && layout->strides[outer] == dims[i].stride * dims[i].size) {
      layout->sizes[outer] *= dims[i].size;
      layout->strides[outer] = dims[i].stride;
    } else {
      layout->sizes[static_cast<size_t>(layout->ndim)] = dims[i].size;
      layout->strides[static_cast<size_t>(layout->ndim++)] = dims[i].stride;
    }
  }
  if (layout->ndim == 0) SetFlat(1, layout);
}

// A size known to the compiler makes each copy one load and one store.
template <size_t kBytes>
void CopyStrided(const std::byte* from, int64_t count, int64_t stride_bytes, std::byte* packed) {
  for (int64_t i = 0; i < count; ++i, packed += kBytes) std::memcpy(packed, from + i * stride_bytes, kBytes);
}

Status Start(const TensorView& tensor, Layout* layout) {
  if (Status status = CheckReadable(tensor); !status.ok()) return status;
  if (Status status = CheckConsistent(tensor); !status.ok()) return status;
  *layout = Layout{};
  layout->data = static_cast<const std::byte*>(tensor.data);
  layout->count = tensor.numel;
  return Status();
}

}  // namespace

Status CanonicalLayout(const TensorView& tensor, Layout* layout) {
  if (Status status = Start(tensor, layout); !status.ok()) return status;
  if (tensor.numel == 0 || IsRowMajor(tensor)) return SetFlat(tensor.numel, layout), Status();
  Dims dims{};
  int ndim = RealDims(tensor, &dims);
  for (size_t i = 0; i < static_cast<size_t>(ndim); ++i)
    if (dims[i].stride == 0) layout->repeat *= dims[i].size;
  layout->count = tensor.numel / layout->repeat;
  ndim = static_cast<int>(
      std::remove_if(dims.begin(), dims.begin() + ndim, [](const Dim& dim) { return dim.stride == 0; }) - dims.begin());
  if (IsDense(dims, ndim))
    SetFlat(layout->count, layout);
  else
    SetMerged(dims, ndim, layout);
  return Status();
}

Status LogicalLayout(const TensorView& tensor, Layout* layout) {
  if (Status status = Start(tensor, layout); !status.ok()) return status;
  if (tensor.numel == 0) return SetFlat(0, layout), Status();
  Dims dims{};
  const int ndim = RealDims(tensor, &dims);
  SetMerged(dims, ndim, layout);
  return Status();
}

bool SameShape(const TensorView& a, const TensorView& b) {
  return a.ndim == b.ndim && std::equal(a.sizes.begin(), a.sizes.begin() + a.ndim, b.sizes.begin());
}

bool DenseAlike(const TensorView& a, const TensorView& b) {
  if (!SameShape(a, b)) return false;
  Dims dims_a{}, dims_b{};
  const int ndim = RealDims(a, &dims_a);
  RealDims(b, &dims_b);
  if (!IsDense(dims_a, ndim)) return false;
  return std::equal(dims_a.begin(), dims_a.begin() + ndim, dims_b.begin(),
                    [](const Dim& x, const Dim& y) { return x.stride == y.stride; });
}

Cursor::Cursor(const Layout& layout, int element_size, int64_t first) : layout_(layout), element_size_(element_size) {
  for (size_t dim = static_cast<size_t>(layout.ndim); dim-- > 0 && first > 0;) {
    index_[dim] = dim == 0 ? first : first % layout.sizes[dim];
    first /= layout.sizes[dim];
    offset_ += index_[dim] * layout.strides[dim];
  }
}

Cursor::Run Cursor::NextRun(int64_t limit) {
  size_t dim = static_cast<size_t>(layout_.ndim - 1);
  const Run run{layout_.data + offset_ * element_size_, std::min(limit, layout_.sizes[dim] - index_[dim])};
  index_[dim] += run.count;
  offset_ += run.count * layout_.strides[dim];
  for (; dim > 0 && index_[dim] == layout_.sizes[dim]; --dim) {
    index_[dim] = 0;
    ++index_[dim - 1];
    offset_ += layout_.strides[dim - 1] - layout_.sizes[dim] * layout_.strides[dim];
  }
  return run;
}

void Cursor::Gather(int64_t count, std::byte* packed) {
  while (count > 0) {
    const Run run = NextRun(count);
    if (inner_stride() == element_size_) {
      std::memcpy(packed, run.first, static_cast<size_t>(run.count * element_size_));
    } else {
      switch (element_size_) {
        case 8: CopyStrided<8>(run.first, run.count, inner_stride(), packed); break;
        case 4: CopyStrided<4>(run.first, run.count, inner_stride(), packed); break;
        case 2: CopyStrided<2>(run.first, run.count, inner_stride(), packed); break;
        default: CopyStrided<1>(run.first, run.count, inner_stride(), packed); break;
      }
    }
    packed += run.count * element_size_;
    count -= run.count;
  }
}

}  // namespace stepwatch::kernels
