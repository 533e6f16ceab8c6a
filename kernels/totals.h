// Totals that every path accumulates, and the arithmetic that turns them into Statistics.
//
// Canonical order of the sums: within a chunk of kChunkElements, element i is added to fp64 lane i % kLanes; at the end
// of the chunk the lanes are folded by halves (lane i adds lane i + 8, then i + 4, ...); chunks are added in order. A
// product and the sum it goes into are rounded separately. This order gives the same bits on every instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace stepwatch::kernels {

inline constexpr int kLanes = 16;
inline constexpr int64_t kChunkElements = 65536;

struct Totals {
  double sum = 0;
  double sum_of_squares = 0;
  // Extremes of the elements that are not NaN.
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  int64_t min_int = std::numeric_limits<int64_t>::max();
  int64_t max_int = std::numeric_limits<int64_t>::min();
  int64_t zeros = 0;
  int64_t nans = 0;
  int64_t infs = 0;
};

// Appends the totals of the next chunk.
void JoinTotals(const Totals& chunk, Totals* all);

// The tree of the canonical order.
double FoldLanes(const std::array<double, kLanes>& lanes);

// The threshold that |x| is compared with: eps as torch sees it. torch converts a Python number to fp16 and bf16
// through fp32, so rounding happens twice; integers, bool and fp8 are compared with eps itself. If a positive eps
// rounds to 0, the smallest number of the dtype replaces it, so that exact zeros count.
double Threshold(DType dtype, const MeasureOptions& options);

// A result of zero is +0.0 for any signs of the zeros in the data, and a NaN always has the same bits.
Statistics Finish(const Totals& totals, const Layout& layout, DType dtype);

// (sum / n + 1) / 2 for the sum of n products of signs; 1 if n is 0.
double Agreement(int64_t sum, int64_t n);

}  // namespace stepwatch::kernels
