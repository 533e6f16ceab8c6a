// The status in Prometheus' text format 0.0.4.
#pragma once

#include <string>

#include "controller/door/job.h"

namespace stepwatch::door {

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

std::string MetricsText(const JobStatus& status);

}  // namespace stepwatch::door
