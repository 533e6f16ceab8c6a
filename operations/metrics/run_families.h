// The metrics of runs. Pure. docs/operate/metrics.md lists them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "operations/runs/snapshot.h"
#include "operations/vocabulary/names.h"
#include "src/http/metric_family.h"

namespace stepwatch::operations {

// Runs leave the page this long after their end, or after their last line.
inline constexpr double kEndedSecondsOnPage = 600;
inline constexpr double kSilentSecondsOnPage = 86400;

struct RunPageLimits {
  size_t runs = 1024;          // those that have ended, or were silent for longest, are left out
  size_t ranks_of_run = 1024;  // the first ones
  size_t ranks = 8192;         // of all runs
};

struct OpenIncident {
  std::string run;
  IncidentKind kind = IncidentKind::kStuck;
  Severity severity = Severity::kWarning;
};

struct RunPage {
  std::vector<RunSnapshot> runs;  // with their ranks: see Observer::RunsOfLate
  double now = 0;                 // in the observer's clock
  std::vector<OpenIncident> incidents;
};

std::vector<http::MetricFamily> RunFamilies(RunPage page, const RunPageLimits& limits = {});

}  // namespace stepwatch::operations
