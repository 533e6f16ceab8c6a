// The reference that every faster kernel must match bit for bit.
//
// Scalar, fp64, one straightforward walk for any layout; not tuned. The order of the sums is a parameter: the default
// is the canonical order of totals.h, and other engines describe theirs here.
#pragma once

#include "kernels/totals.h"

namespace stepwatch::kernels::reference {

// Within a chunk, elements are added to their lanes by rising index, then the lanes are folded by halves.
struct SumOrder {
  int64_t chunk_elements = kChunkElements;
  int lanes = kLanes;  // a power of two
  // The lane of the element at `index` of a chunk; null: index % lanes.
  int (*lane_of)(int64_t index) = nullptr;
  // 0: the sums of the chunks are added in order. Otherwise, a power of two: each `group` successive chunks are folded
  // by halves (+0.0 stands for those beyond the end), the sum of group g goes into lane g % group of as many lanes, and
  // these are folded by halves.
  int64_t group = 0;
};

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics,
               const SumOrder& order = {});
Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement);

}  // namespace stepwatch::kernels::reference
