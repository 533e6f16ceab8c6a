// Metrics of GPUs by the source that --gpu-source names. Rules and dashboards take every one of them from here. Series
// of both sources have the labels cluster, node, gpu_uuid and gpu.
#pragma once

#include <string>

#include "operations/provision/options.h"

namespace stepwatch::operations {

// Expressions; each is a name, or stands in parentheses.
struct GpuNames {
  std::string temperature;  // degrees Celsius, likewise the next two
  std::string memory_temperature;
  std::string slowdown_temperature;
  std::string memory_ratio;  // used / total
  std::string activity;      // 0 to 1: of the SMs, else the time with a kernel
  std::string activity_10m;  // the maximum of 10 minutes
  std::string power;         // watts
  std::string xid_errors;    // in 10 minutes
  std::string ecc_errors;    // uncorrectable, in an hour
};

GpuNames GpuNamesOf(GpuSource source);

}  // namespace stepwatch::operations
