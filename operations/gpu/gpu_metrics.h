// Metrics of the GPUs of this host. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/gpu/gpu_sample.h"
#include "operations/gpu/gpu_users.h"
#include "src/http/metric_family.h"

namespace stepwatch::operations {

struct GpuStatus {
  // Values that are older than this are left out.
  static constexpr double kAgeSecondsMax = 60;

  GpuSample sample;  // the last one that was complete
  std::optional<double> age_seconds;
  double stuck_seconds = 0;  // that the present call has not returned; 0: it is not late
  GpuUsers users;
  std::map<std::pair<std::string, int64_t>, int64_t> xids;  // by UUID and code
  std::optional<bool> is_fabric_manager_active;
};

// Empty without a library of NVIDIA.
std::vector<http::MetricFamily> GpuFamilies(const GpuStatus& status);

}  // namespace stepwatch::operations
