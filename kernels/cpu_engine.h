// CPU statistics at one instruction-set level: layouts, chunks, threads.
//
// Strided data is copied into a small contiguous block at a time before it enters the loops.
#pragma once

#include "kernels/kernels.h"
#include "kernels/loops.h"

namespace stepwatch::kernels::cpu {

// As in kernels.h; `histogram` may be null.
Status Measure(const Level& level, const TensorView& tensor, const MeasureOptions& options, Statistics* statistics,
               Histogram* histogram = nullptr);
void MeasureBatch(const Level& level, BatchItem* items, size_t count, const MeasureOptions& options,
                  ParallelFor parallel_for);
Status SignAgreement(const Level& level, const TensorView& a, const TensorView& b, double* agreement);

}  // namespace stepwatch::kernels::cpu
