#include "controller/cli/edit_target.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "controller/cli/find_job.h"
#include "src/base/file.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

// What a target needs of the status of a job; what another release says in another way is left out.
struct JobFacts {
  std::string config_path;
  bool is_dynamic = false;
  bool is_first_rank = false;
};

JobFacts JobFactsOf(const control_socket::FoundJob& job) {
  const Result<Json> status = json::Parse(job.status);
  if (!status.ok() || !status.value().is_object()) return {};
  const auto member = [&](const char* name) { return status.value().value(name, Json()); };
  JobFacts facts;
  if (const Json path = member("config_path"); path.is_string()) facts.config_path = path.get<std::string>();
  facts.is_dynamic = member("dynamic") == true;
  facts.is_first_rank = member("rank") == 0;
  return facts;
}

std::string RealPath(const std::string& path) {
  std::string real;
  return base::FileSystem::Real().RealPath(path.c_str(), &real) == 0 ? real : path;
}

// Two mount namespaces may have different files of one name. What the other one has is not always for us to see.
bool IsOtherFileThere(const control_socket::FoundJob& job, const std::string& config_path, const std::string& path) {
  base::FileSystem& files = base::FileSystem::Real();
  struct stat here = {}, there = {};
  const std::string seen_by_job = "/proc/" + std::to_string(job.pid) + "/root" + config_path;
  return files.Stat(path.c_str(), &here) == 0 && files.Stat(seen_by_job.c_str(), &there) == 0 &&
         (here.st_dev != there.st_dev || here.st_ino != there.st_ino);
}

bool Watches(const control_socket::FoundJob& job, const JobFacts& facts, const std::string& path) {
  return facts.is_dynamic && RealPath(facts.config_path) == RealPath(path) &&
         !IsOtherFileThere(job, facts.config_path, path);
}

}  // namespace

Result<EditTarget> ChooseTarget(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                const std::string& directory) {
  const std::string path = word.empty() || word.front() == '/' ? word : base::JoinPath(directory, word);
  EditTarget target{word, std::nullopt};
  for (const control_socket::FoundJob& job : jobs) {
    const JobFacts facts = JobFactsOf(job);
    // Rank 0 writes the history.
    if (!word.empty() && Watches(job, facts, path) && (!target.job || facts.is_first_rank)) target.job = job;
  }
  if (target.job || (!word.empty() && base::Exists(path))) return target;
  const Result<control_socket::FoundJob> job = ChooseJob(jobs, word, directory);
  if (!job.ok() && job.status().code() == StatusCode::kUnavailable && !word.empty()) return target;
  if (!job.ok()) return job.status();
  return EditTarget{JobFactsOf(job.value()).config_path, job.value()};
}

Result<EditTarget> FindTarget(const std::string& word) {
  std::string here;
  (void)base::FileSystem::Real().CurrentDirectory(&here);
  return ChooseTarget(AllJobs(), word, here);
}

}  // namespace stepwatch::cli
