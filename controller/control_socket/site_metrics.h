// The latest statistics of sites as metrics: up to a maximum number of series, and the number that was left out.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "controller/control_socket/job.h"
#include "src/http/metrics_page.h"

namespace stepwatch::control_socket {

struct SiteValues {
  size_t series_max = 0;  // 0: off
  std::vector<std::pair<SiteKind, std::vector<LatestValue>>> kinds;
  size_t kinds_unanswered = 0;  // kinds for which the drain answered too late
};

// Requests all kinds from the job, with one time limit for all.
SiteValues ReadSites(Job& job);
// Adds the first series in the order of kinds and sites, so that the selection is stable.
void AddSites(http::MetricsPage* page, const SiteValues& sites);

}  // namespace stepwatch::control_socket
