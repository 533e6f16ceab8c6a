// The specification of the dashboards.
#pragma once

#include <vector>

#include "operations/provision/dashboard.h"
#include "operations/provision/gpu_names.h"

namespace stepwatch::operations {

std::vector<Dashboard> Dashboards(const GpuNames& gpu);

}  // namespace stepwatch::operations
