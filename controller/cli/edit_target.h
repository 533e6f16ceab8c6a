// What a verb that changes a config is to change: a file, through the control socket of the job that watches it if one
// runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

struct EditTarget {
  std::string config;                           // the file
  std::optional<control_socket::FoundJob> job;  // in dynamic mode, watches just that file; nothing: the file is written
};

// `word`: a config file, or a job as FindJob takes it; empty: the only job. A file that no job watches is a target, and
// so is one that is not there.
Result<EditTarget> FindTarget(const std::string& word);

// The same among these jobs. A relative path is one of `directory`.
Result<EditTarget> ChooseTarget(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                const std::string& directory);

}  // namespace stepwatch::cli
