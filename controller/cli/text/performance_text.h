// A report of GET /v1/runs/{run}/performance as text and as one page of HTML. Pure; another process wrote the report.
#pragma once

#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::cli {

struct PerformanceRow {
  std::string name;
  std::string value;  // "-": never reported
};
struct PerformanceSection {
  std::string title;
  std::vector<PerformanceRow> rows;
};

// Everything but interruptions, evaluations, findings and plots.
std::vector<PerformanceSection> PerformanceSections(const Json& report_untrusted);
// One line each: time, duration, cause.
std::vector<std::vector<std::string>> InterruptionRows(const Json& report_untrusted);
std::vector<std::vector<std::string>> EvaluationRows(const Json& report_untrusted);

std::string PerformanceText(const Json& report_untrusted);
// Self-contained: no script, no reference to anything outside.
std::string PerformancePage(const Json& report_untrusted);

}  // namespace stepwatch::cli
