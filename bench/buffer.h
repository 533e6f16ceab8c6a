// Memory for measurements: random numbers distributed like weights, never zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepwatch/tensor_view.h"

namespace stepwatch::bench {

// Allocated by the kernel directly, in pages of 4 KB like torch's tensors; every page is touched.
class Buffer {
 public:
  // Throws std::runtime_error if there is not enough memory.
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Fills with normal numbers of standard deviation 0.02 in one of the float formats.
  void FillNormal(DType dtype);
  // Overwrites every `distance`-th element with the given codes in turn.
  void Plant(DType dtype, size_t distance, const uint64_t* codes, size_t code_count);

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Returns the whole buffer as one dense tensor, or `count` elements from `first` on.
  TensorView View(DType dtype) const;
  TensorView View(DType dtype, int64_t first, int64_t count) const;

 private:
  std::byte* data_;
  size_t bytes_;
};

// The bit patterns of NaN and infinity in a float format; infinity is 0 if the format has none.
struct SpecialCodes {
  uint64_t nan;
  uint64_t infinity;
};
SpecialCodes SpecialCodesOf(DType dtype);

}  // namespace stepwatch::bench
