// Metrics of this host. Pure.
#pragma once

#include <map>
#include <string>

#include "operations/host/host_sample.h"
#include "src/http/metrics_page.h"

namespace stepwatch::operations {

// `disks`: by the directories of the settings. `checkpoint_bytes`: the size of one checkpoint by run, where it is
// reported.
void AddHostMetrics(const HostSample& sample, const std::map<std::string, DiskSpace>& disks,
                    const std::map<std::string, double>& checkpoint_bytes, http::MetricsPage* page);

}  // namespace stepwatch::operations
