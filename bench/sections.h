// The parts of stats_bench, each a table of its own.
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

// One thread over buffers that no cache holds, and over one that the last-level cache may hold.
void MeasureDram(const Settings& settings, Report* report);
void MeasureLastLevelCache(const Settings& settings, Report* report);
// fp32 from DRAM in a process of its own that is made to use AVX2.
void MeasureForcedAvx2(const Settings& settings, Report* report);
// Two pinned threads over one.
void MeasureTwoThreads(const Settings& settings, Report* report);
// NaN or infinities everywhere, over clean data.
void MeasureNonFinite(const Settings& settings, Report* report);
// Sign agreement, and statistics with a histogram.
void MeasureExtras(const Settings& settings, Report* report);
// What a call costs when the tensor is small.
void MeasureSmallTensors(const Settings& settings, Report* report);
// Against torch's own operations on whole models; leaves itself out of a build without torch.
void MeasureAgainstTorch(const Settings& settings, Report* report);

// "fp32" -> kFloat32; throws std::invalid_argument for what is none of fp64, fp32, fp16, bf16, e4m3, e5m2.
DType DTypeOfName(const std::string& name);

// Bytes of the largest cache of the first processor; 0 if the system does not say.
size_t LastLevelCacheBytes();

// kernels::Measure, with all its statistics; throws std::runtime_error if it cannot.
void MeasureAll(const TensorView& tensor);

}  // namespace stepwatch::bench
