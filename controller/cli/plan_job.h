// `stepwatch plan FILE` beside a running job: what would change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// The job that watches a config file, whatever either of them calls it; of several ranks the first.
std::optional<control_socket::FoundJob> JobThatWatches(const std::vector<control_socket::FoundJob>& jobs,
                                                       const std::string& file);

// That job or, if none watches the file, the only one there is.
Result<control_socket::FoundJob> JobForFile(const std::vector<control_socket::FoundJob>& jobs, const std::string& file);

// Asks the job and prints; the exit code: 0 the same, 1 differs, 2 invalid, 6 the job does not answer.
int RunPlanOfJob(const std::string& file, const control_socket::FoundJob& job, bool json);

}  // namespace stepwatch::cli
