// The page of /metrics: how stepwatchd itself does, and what it watches, in Prometheus' text format.
#pragma once

#include <string>

#include "operations/intake/service.h"

namespace stepwatch::operations {

std::string DaemonMetricsText(const DaemonCounts& counts);

}  // namespace stepwatch::operations
