// The threshold of `zeros` in the representation of each dtype, so that a loop compares raw elements.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace stepwatch::kernels {

// An element counts as zero if |x| < threshold. For each kind of element this equals a strict comparison with the
// smallest value of its dtype that is not below the threshold, or with that value's bits.
struct Limits {
  double threshold = 0;  // float64, int64
  float float32 = 0;
  uint16_t bits16 = 0;  // float16, bfloat16: of |x|
  uint8_t bits8 = 0;    // float8: of |x|
  // Other integers and bool: zero_from <= x <= zero_to; empty if zero_from > zero_to.
  int64_t zero_from = 1;
  int64_t zero_to = 0;
};

Limits LimitsFor(DType dtype, const MeasureOptions& options);

}  // namespace stepwatch::kernels
