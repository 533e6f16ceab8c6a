#include "controller/cli/job_groups.h"

#include <algorithm>

#include "controller/cli/find_job.h"

namespace stepwatch::cli {

std::vector<JobGroup> GroupByRun(const std::vector<control_socket::FoundJob>& jobs) {
  std::vector<JobGroup> groups;
  for (const control_socket::FoundJob& job : jobs) {
    const RunRank own = RunRankOf(job);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const JobGroup& each) { return !own.run_id.empty() && each.run_id == own.run_id; });
    if (group == groups.end()) group = groups.insert(groups.end(), JobGroup{own.run_id, own.world_size, {}});
    group->jobs.push_back(job);
  }
  for (JobGroup& group : groups)
    std::stable_sort(group.jobs.begin(), group.jobs.end(),
                     [](const control_socket::FoundJob& a, const control_socket::FoundJob& b) {
                       return RunRankOf(a).rank < RunRankOf(b).rank;
                     });
  return groups;
}

}  // namespace stepwatch::cli
