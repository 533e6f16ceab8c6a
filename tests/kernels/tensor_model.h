// A second, slow computation of every statistic, written from the definitions alone, and tensors for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace stepwatch::kernels::test {

inline constexpr DType kAllDTypes[] = {DType::kFloat64,    DType::kFloat32,    DType::kFloat16, DType::kBFloat16,
                                       DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt64,   DType::kInt32,
                                       DType::kInt16,      DType::kInt8,       DType::kUInt8,   DType::kBool};
// Those with infinities.
inline constexpr DType kInfiniteDTypes[] = {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                                            DType::kFloat8E5M2};

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// The number that the bytes at `address` stand for.
long double Decode(DType dtype, const void* address);

// A one-dimensional tensor that owns its elements.
struct Tensor {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;
  TensorView view() const;
  TensorView view(std::initializer_list<int64_t> sizes) const;
};

// Each value must be one that the dtype holds exactly.
Tensor MakeTensor(DType dtype, const std::vector<double>& values);
template <class T>
Tensor MakeRawTensor(DType dtype, const std::vector<T>& values) {
  Tensor tensor{dtype, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) __builtin_memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

enum class Fill { kOrdinary, kAnyBits, kTiny, kHuge, kFewSpecial };
inline constexpr Fill kAllFills[] = {Fill::kOrdinary, Fill::kAnyBits, Fill::kTiny, Fill::kHuge, Fill::kFewSpecial};
// `count` elements; kAnyBits includes NaN and infinities where the dtype has them, kFewSpecial now and then.
Tensor RandomTensor(DType dtype, int64_t count, Fill fill, std::mt19937_64* random);

// A view and the memory under it, which ends exactly where the view does.
struct OwnedTensor {
  std::vector<std::byte> memory;
  TensorView view;
};

// The number of elements from the lowest to the highest of a tensor, whose strides may be negative.
int64_t SpanOf(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
// A tensor of these strides over the bytes of its whole span, which begin `shift` bytes into its memory.
OwnedTensor StridedTensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t shift, const std::vector<std::byte>& bytes);
OwnedTensor StridedTensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t shift, Fill fill, std::mt19937_64* random);

// The errors of `found` as the statistics of `tensor`; empty if nothing. Counts and extremes must be exact.
std::string Mistakes(const TensorView& tensor, const MeasureOptions& options, const Statistics& found);
// The sign agreement of two tensors of one shape.
double ModelAgreement(const TensorView& a, const TensorView& b);

// Names the fields whose bits differ; empty if none.
std::string Difference(const Statistics& a, const Statistics& b);

Statistics MeasureOrFail(const TensorView& tensor, const MeasureOptions& options = {});

uint64_t RandomSeed();
// From 0 to `bound` - 1.
int64_t Below(int64_t bound, std::mt19937_64* random);
// Dense in a random order of dimensions, then perhaps with gaps, pitches, repeats, arbitrary or negative strides.
std::vector<int64_t> RandomStrides(const std::vector<int64_t>& sizes, std::mt19937_64* random);

// Dtype, sizes, strides and number of elements of a view, which may contradict itself, and its address modulo 16.
std::string Describe(const TensorView& view);

}  // namespace stepwatch::kernels::test
