// The specification of the dashboards.
#pragma once

#include <string>
#include <vector>

#include "operations/provision/dashboard.h"
#include "operations/provision/gpu_names.h"

namespace stepwatch::operations {

// `runbook`: URL of a link in each; may be empty.
std::vector<Dashboard> Dashboards(const GpuNames& gpu, const std::string& runbook);

}  // namespace stepwatch::operations
