// The truth that every faster kernel is compared with, bit for bit.
//
// Scalar, fp64, one straightforward walk for any layout in the canonical order of layout.h and totals.h; nothing is
// tuned.
#pragma once

#include "kernels/totals.h"

namespace stepwatch::kernels::reference {

// `chunk_elements` is there for tests: another value is another order of the sums.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics,
               int64_t chunk_elements = kChunkElements);
Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement);

}  // namespace stepwatch::kernels::reference
