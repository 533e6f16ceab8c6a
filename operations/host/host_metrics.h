// Metrics of this host. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operations/host/host_sample.h"
#include "src/http/metric_family.h"

namespace stepwatch::operations {

// `disks`: by the directories of the settings. `checkpoint_bytes`: the size of one checkpoint by run, where it is
// reported.
std::vector<http::MetricFamily> HostFamilies(const HostSample& sample, const std::map<std::string, DiskSpace>& disks,
                                             const std::map<std::string, double>& checkpoint_bytes);

}  // namespace stepwatch::operations
