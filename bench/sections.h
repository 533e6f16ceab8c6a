// The parts of stats_bench, each with a separate table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/report.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::bench {

struct Settings {
  int rounds = 9;
  size_t dram_mb = 2048;
  std::vector<std::string> dtypes{"fp32", "bf16", "fp16"};  // of the parts that read memory
};

// Measures one thread on buffers larger than any cache, and on one that the last-level cache may hold.
void MeasureDram(const Settings& settings, Report* report);
void MeasureLastLevelCache(const Settings& settings, Report* report);
// Measures fp32 from DRAM in a separate process that is restricted to AVX2.
void MeasureForcedAvx2(const Settings& settings, Report* report);
// Measures two pinned threads over one.
void MeasureTwoThreads(const Settings& settings, Report* report);
// Measures NaN or infinities everywhere, over clean data.
void MeasureNonFinite(const Settings& settings, Report* report);
// Measures sign agreement, and statistics with a histogram.
void MeasureExtras(const Settings& settings, Report* report);
// Measures the cost of a call for a small tensor.
void MeasureSmallTensors(const Settings& settings, Report* report);
// Compares with torch's own operations on whole models; does nothing in a build without torch.
void MeasureAgainstTorch(const Settings& settings, Report* report);

// "fp32" -> kFloat32; throws std::invalid_argument for names other than fp64, fp32, fp16, bf16, e4m3, e5m2.
DType DTypeOfName(const std::string& name);

// Returns the bytes of the largest cache of the first processor; 0 if unknown.
size_t LastLevelCacheBytes();

// Calls kernels::Measure with all statistics; throws std::runtime_error on failure.
void MeasureAll(const TensorView& tensor);

}  // namespace stepwatch::bench
