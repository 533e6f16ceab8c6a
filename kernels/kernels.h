// The one face of the statistics kernels: an array of numbers in, all of its statistics out, from one read.
//
// Pure functions of their arguments, safe from any thread, never allocating on the way for tensors of up to kDimsMax
// dimensions, never throwing. The same input gives the same bits on every run.
#pragma once

#include "stepwatch/statistics.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels {

struct MeasureOptions {
  double eps = 1e-8;  // threshold of `zeros`
  EpsMode eps_mode = EpsMode::kParity;
};

// Reads every element of a CPU tensor once. kUnsupported: a device without an engine, or DType::kOther. kInvalid: a
// view that contradicts itself. A result of zero is always +0.0.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics);

// (sum(sign(a) * sign(b)) / n + 1) / 2 from integer counts, sign(NaN) being 0: 1 when all signs agree. Both tensors are
// read in logical order. Shapes that differ give 0, as msProbe does; an empty pair gives 1.
Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement);

// The instruction set that Measure uses for fp64, fp32, fp16 and bf16: "avx512", "avx2" or "baseline". All give the
// same bits.
const char* MeasurePathName();

}  // namespace stepwatch::kernels
