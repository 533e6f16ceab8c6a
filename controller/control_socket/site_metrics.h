// The latest statistics of sites as metrics: as many series as are wanted, and how many there would have been.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "controller/control_socket/job.h"
#include "src/http/metrics_page.h"

namespace stepwatch::control_socket {

struct SiteValues {
  size_t series_max = 0;  // 0: nobody wants any
  std::vector<std::pair<SiteKind, std::vector<LatestValue>>> kinds;
  size_t kinds_unanswered = 0;  // the drain was too slow to tell of them
};

// Asks the job for all kinds, for a limited time in all.
SiteValues AskSites(Job& job);
// The first series in the order of kinds and sites, so that it is the same ones each time.
void AddSites(http::MetricsPage* page, const SiteValues& sites);

}  // namespace stepwatch::control_socket
