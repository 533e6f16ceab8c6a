// A report as JSON: the answer of GET /v1/runs/{run}/performance.
#pragma once

#include "operations/performance/report.h"
#include "src/json/json.h"

namespace stepwatch::operations {

Json ReportJson(const PerformanceReport& report);

}  // namespace stepwatch::operations
