// Interface of the statistics kernels: computes all statistics of an array of numbers in one read.
//
// Pure functions of their arguments, safe from any thread. They never throw, and do not allocate for tensors of up to
// kDimsMax dimensions. The same input gives the same bits on every run, instruction set and number of threads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stepwatch/parallel_for.h"
#include "stepwatch/statistics.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels {

class Histogram;  // kernels/histogram.h

struct MeasureOptions {
  double eps = 1e-8;  // threshold of `zeros`
  EpsMode eps_mode = EpsMode::kParity;
};

// Reads every element of a CPU tensor once. kUnsupported: a device without an engine, or DType::kOther. kInvalid: an
// inconsistent view. A result of zero is always +0.0.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics);

// The same, and adds the elements to the counts of `histogram`, in the same read.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics, Histogram* histogram);

// One tensor of a batch: `tensor` is the input, the others are outputs. `statistics` is set if `code` is kOk.
struct BatchItem {
  TensorView tensor;
  Statistics statistics;
  StatusCode code = StatusCode::kOk;
};

// The same for many tensors at once. Work of more than a few hundred KB is shared among the threads that `parallel_for`
// provides (null: all on the caller); the bits are those of Measure. An item that cannot be measured does not affect
// the others.
void MeasureBatch(BatchItem* items, size_t count, const MeasureOptions& options, ParallelFor parallel_for);

// (sum(sign(a) * sign(b)) / n + 1) / 2 from integer counts, sign(NaN) being 0: 1 when all signs agree. Both tensors are
// read in logical order. Shapes that differ give 0, as msProbe does; an empty pair gives 1.
Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement);

// The instruction set that Measure uses: "avx512", "avx2", "sse4", "neon" or "scalar". All give the same bits. The
// environment variable STEPWATCH_CPU_TARGET, read at the first use, forces one that this processor supports.
const char* MeasurePathName();

// The CPU part of `stepwatch doctor`.
struct CpuReport {
  std::string in_use;
  std::vector<std::string> available;  // on this processor, best first
  std::string wanted;                  // STEPWATCH_CPU_TARGET, empty if unset
  bool granted = true;                 // false: `wanted` is not in `available`, and the best one is used
};
CpuReport DetectCpu();

}  // namespace stepwatch::kernels
