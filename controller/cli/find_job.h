// The running job, or the config file, that an argument of a command line names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// All jobs of this user on this machine.
std::vector<control_socket::FoundJob> AllJobs();
// The directories where jobs are looked for, and why some of them were skipped: " (searched …)".
std::string SearchedText();

// The status from the job's answer, untrusted; an empty object if it is not readable.
Json StatusOf(const control_socket::FoundJob& job);

// The rank of a job in its run, from its status.
struct RunRank {
  std::string run_id;  // empty: not known
  int64_t rank = 0;
  int64_t world_size = 1;
};
RunRank RunRankOf(const control_socket::FoundJob& job);

// The ranks of one run, by rank; or one job whose run is not known.
struct JobGroup {
  std::string run_id;  // empty: not known
  int64_t world_size = 1;
  std::vector<control_socket::FoundJob> jobs;
};
// In the order in which their first jobs are found.
std::vector<JobGroup> GroupByRun(const std::vector<control_socket::FoundJob>& jobs);

// The description of JOB in help texts.
inline constexpr const char* kJobHelp =
    "a name from `stepwatch ps`, a pid, a socket, a config file or the prefix of a run id "
    "(default: the only job)";

// `word`: the name that `stepwatch ps` shows, a pid, the path of a socket or of a config file, or the beginning of a
// run id; empty: the only job. The ranks of one run are one job, for which its lowest rank here stands. kUnavailable:
// no job matches; kInvalid: several do.
Result<control_socket::FoundJob> FindJob(const std::string& word);
// The same among these jobs. A relative path is relative to `directory`. Pure.
Result<control_socket::FoundJob> ChooseJob(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                           const std::string& directory);

// Prints why no job can be queried: to standard error, or as one JSON object to standard output. Returns the exit code.
int NoJob(const Status& status, bool as_json);

// The job that watches a config file, by any path; of several ranks the first.
std::optional<control_socket::FoundJob> JobThatWatches(const std::vector<control_socket::FoundJob>& jobs,
                                                       const std::string& file);
// That job or, if no job watches the file, the only one.
Result<control_socket::FoundJob> JobForFile(const std::vector<control_socket::FoundJob>& jobs, const std::string& file);

// The config file that an edit changes: through the control socket of the job that watches it, if one runs.
struct EditTarget {
  std::string config;  // the file
  std::optional<control_socket::FoundJob>
      job;  // in dynamic mode, watches exactly that file; null: the file is written directly
};

// `word`: a config file, or a JOB argument of FindJob; empty: the only job. A file that no job watches is a target, and
// so is a missing one.
Result<EditTarget> FindTarget(const std::string& word);
// The same among these jobs. A relative path is relative to `directory`.
Result<EditTarget> ChooseTarget(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                const std::string& directory);

}  // namespace stepwatch::cli
