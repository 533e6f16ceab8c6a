// The memory layout of a tensor, reduced to the needs of a kernel.
//
// The order in which elements are added decides the last bits of a sum, so it is fixed here, once, for every path:
//   - a dense tensor in any permutation of its dimensions is one flat pass over its storage, by rising address;
//   - any other tensor is read in logical (row-major) order;
//   - an expanded dimension (stride 0) is read once, and counts and sums are multiplied by the number of its repeats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels {

// Dimensions of size 1 are gone and neighbours that continue each other are merged. A scalar has one dimension of
// size 1.
struct Layout {
  const std::byte* data = nullptr;
  int64_t count = 0;   // elements to read
  int64_t repeat = 1;  // how often each element occurs in the tensor; count * repeat is its numel
  int ndim = 1;
  std::array<int64_t, kDimsMax> sizes{};
  std::array<int64_t, kDimsMax> strides{};  // in elements

  bool flat() const { return ndim == 1 && strides[0] == 1; }
};

// Layout in summation order. kInvalid: an inconsistent view (numel and sizes, null address, too many dimensions);
// kUnsupported: a device or dtype that no kernel reads.
Status CanonicalLayout(const TensorView& tensor, Layout* layout);

// Logical order with every repeat kept, for reading two tensors side by side. Same errors.
Status LogicalLayout(const TensorView& tensor, Layout* layout);

bool SameShape(const TensorView& a, const TensorView& b);

// True if both tensors have the same shape and memory layout, without gaps: then any common order pairs the same
// elements.
bool DenseAlike(const TensorView& a, const TensorView& b);

// Walks the elements of a layout in its order.
class Cursor {
 public:
  // Begins at element `first`, which may be the end.
  Cursor(const Layout& layout, int element_size, int64_t first = 0);

  struct Run {
    const std::byte* first;
    int64_t count;
  };
  // The next elements that lie `inner_stride()` bytes apart, at least one, at most `limit`. Must not be called at the
  // end.
  Run NextRun(int64_t limit);
  int64_t inner_stride() const { return layout_.strides[static_cast<size_t>(layout_.ndim - 1)] * element_size_; }

  // Copies the next `count` elements side by side into `packed`.
  void Gather(int64_t count, std::byte* packed);

 private:
  const Layout& layout_;
  int element_size_;
  int64_t offset_ = 0;  // of the next element, in elements
  std::array<int64_t, kDimsMax> index_{};
};

}  // namespace stepwatch::kernels
