// Gathers what a report about a run needs from the Service, and makes the report.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operations/intake/service.h"
#include "operations/performance/report.h"

namespace stepwatch::operations {

struct PerformanceQuery {
  std::string run;
  double window_seconds = 86400;
  LegacySettings legacy;
};

// One series is read in a turn of the loop. Nullopt: unknown run.
void GatherPerformance(const PerformanceQuery& query, Service* service,
                       std::function<void(std::optional<PerformanceReport>)> then);

}  // namespace stepwatch::operations
