// Memory to measure: random numbers, as weights have them, never zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepwatch/tensor_view.h"

namespace stepwatch::bench {

// Asked of the kernel directly, in pages of 4 KB, which is what torch's tensors live in; every page touched.
class Buffer {
 public:
  // Throws std::runtime_error if there is not enough memory.
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Normal numbers of standard deviation 0.02 in one of the float formats.
  void FillNormal(DType dtype);
  // Overwrites every `distance`-th element, in turn with the codes given.
  void Plant(DType dtype, size_t distance, const uint64_t* codes, size_t code_count);

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // All of it as one dense tensor; or `count` elements from the one at `first` on.
  TensorView View(DType dtype) const;
  TensorView View(DType dtype, int64_t first, int64_t count) const;

 private:
  std::byte* data_;
  size_t bytes_;
};

// The bits of NaN and of the infinity of a float format, the latter 0 if it has none.
struct SpecialCodes {
  uint64_t nan;
  uint64_t infinity;
};
SpecialCodes SpecialCodesOf(DType dtype);

}  // namespace stepwatch::bench
