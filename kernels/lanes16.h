// The vector path for fp64, fp32, fp16 and bf16: the canonical order of totals.h, sixteen elements at a time.
//
// One text (lanes16_body.h) is compiled once for each instruction set; each gives the bits of the reference. Data that
// is not flat is first copied side by side, a small block at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace stepwatch::kernels::lanes16 {

inline constexpr int kWidth = 16;

// The running state of a chunk: plain arrays, so that each instruction set cuts them as it likes.
struct State {
  double sum[kWidth];
  double sum_of_squares[kWidth];
  double min[kWidth];
  double max[kWidth];
  int64_t zeros[kWidth];
};

struct NonFinite {
  int64_t nans;
  int64_t infs;
};

// Loops over `count` packed elements of one dtype at any address.
struct Loops {
  // A call continues the chunk of the call before it, whose count must have been a multiple of kWidth.
  void (*feed)(const void* data, int64_t count, double threshold, State* state);
  NonFinite (*count_non_finite)(const void* data, int64_t count);
  // Sum of the products of the signs of two arrays.
  int64_t (*multiply_signs)(const void* a, const void* b, int64_t count);
};

struct Level {
  const char* name;  // "avx512", "avx2", "baseline"
  Loops float64;
  Loops float32;
  Loops float16;
  Loops bfloat16;
};

// What this processor can run, best first, never empty.
std::vector<const Level*> AvailableLevels();

bool Handles(DType dtype);

// As in kernels.h, for a dtype that is handled; SignAgreement for two tensors of one such dtype.
Status Measure(const Level& level, const TensorView& tensor, const MeasureOptions& options, Statistics* statistics);
Status SignAgreement(const Level& level, const TensorView& a, const TensorView& b, double* agreement);

}  // namespace stepwatch::kernels::lanes16
