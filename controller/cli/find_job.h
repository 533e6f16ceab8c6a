// Which job the words of a command line mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Which rank of which run a job is, by its own word.
struct RunRank {
  std::string run_id;  // empty: it has not said
  int64_t rank = 0;
  int64_t world_size = 1;
};
RunRank RunRankOf(const control_socket::FoundJob& job);

// All jobs of this user on this machine.
std::vector<control_socket::FoundJob> AllJobs();
// Why there is none, as far as it is known: " (looked into …)".
std::string WhereLooked();

// `wanted`: the name that `stepwatch ps` shows, a pid, the path of a socket or of a config file, or the beginning of a
// run id; empty: the only job there is. The ranks of one run are one job, for which its lowest rank here stands.
// kUnavailable: there is none; kInvalid: there are several.
Result<control_socket::FoundJob> FindJob(const std::string& wanted);

// The same among these. A relative path is one of `directory`. Pure.
Result<control_socket::FoundJob> ChooseJob(const std::vector<control_socket::FoundJob>& jobs, const std::string& wanted,
                                           const std::string& directory);

// Prints why there is no job to ask: to standard error, or as one JSON object to standard output. Returns the exit
// code.
int NoJob(const Status& status, bool as_json);

}  // namespace stepwatch::cli
