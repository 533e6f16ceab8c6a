// The one face of the statistics kernels: arrays of numbers in, all of their statistics out, from one read of each.
//
// Pure functions of their arguments, safe from any thread, never allocating on the way for tensors of up to kDimsMax
// dimensions, never throwing. The same input gives the same bits on every run, instruction set and number of threads.
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

// Reads every element of a CPU tensor once. kUnsupported: a device without an engine, or DType::kOther. kInvalid: a
// view that contradicts itself. A result of zero is always +0.0.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics);

// The same, and the elements counted into `histogram`, which adds them to what it holds, from the same read.
Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics, Histogram* histogram);

// One tensor of a batch: `tensor` goes in, the others come out. `statistics` is set if `code` is kOk.
struct BatchItem {
  TensorView tensor;
  Statistics statistics;
  StatusCode code = StatusCode::kOk;
};

// The same for many tensors at once. Work of more than a few hundred KB is shared among the threads that
// `parallel_for` lends (null: all on the caller); the bits are those of Measure. An item that cannot be measured does
// not disturb the others.
void MeasureBatch(BatchItem* items, size_t count, const MeasureOptions& options, ParallelFor parallel_for);

// (sum(sign(a) * sign(b)) / n + 1) / 2 from integer counts, sign(NaN) being 0: 1 when all signs agree. Both tensors are
// read in logical order. Shapes that differ give 0, as msProbe does; an empty pair gives 1.
Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement);

// The instruction set that Measure uses: "avx512", "avx2", "sse4", "neon" or "scalar". All give the same bits.
// STEPWATCH_CPU_TARGET in the environment, read at the first use, forces one of them, if this processor has it.
const char* MeasurePathName();

// What `stepwatch doctor` says of the CPU side.
struct CpuReport {
  std::string in_use;
  std::vector<std::string> available;  // on this processor, best first
  std::string wanted;                  // STEPWATCH_CPU_TARGET, empty if unset
  bool granted = true;                 // false: `wanted` is none of `available`, and the best one is used
};
CpuReport AskCpu();

}  // namespace stepwatch::kernels
