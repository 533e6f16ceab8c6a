// The running jobs of a machine by the run to which they belong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"

namespace stepwatch::cli {

// The ranks of one run, by rank; or one job that has not said what it is.
struct JobGroup {
  std::string run_id;  // empty: not said
  int64_t world_size = 1;
  std::vector<control_socket::FoundJob> jobs;
};

// In the order in which their first jobs are found.
std::vector<JobGroup> GroupByRun(const std::vector<control_socket::FoundJob>& jobs);

}  // namespace stepwatch::cli
