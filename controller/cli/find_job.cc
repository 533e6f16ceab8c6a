#include "controller/cli/find_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_file.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::cli {
namespace {

std::string AbsolutePath(const std::string& path, const std::string& directory) {
  return path.starts_with('/') ? path : base::JoinPath(directory, path);
}

std::string CurrentDirectory() {
  std::string here;
  (void)base::FileSystem::Real().CurrentDirectory(&here);
  return here;
}

// Without links and dots, or as it is if the file system cannot resolve it.
std::string RealPath(const std::string& path) {
  std::string real;
  return base::FileSystem::Real().RealPath(path.c_str(), &real) == 0 ? real : path;
}

bool Matches(const control_socket::FoundJob& job, const std::string& word, const std::string& directory) {
  if (word.empty() || word == job.name || word == std::to_string(job.pid) || word == job.path) return true;
  const Json status = StatusOf(job);
  return RawText(status, "config_path") == AbsolutePath(word, directory) || RawText(status, "run_id").starts_with(word);
}

// The ranks of one run are one job: the one with the lowest number stands for it.
const control_socket::FoundJob* OfOneRun(const std::vector<control_socket::FoundJob>& jobs) {
  const control_socket::FoundJob* lowest = nullptr;
  std::string run;
  int64_t lowest_rank = 0;
  for (const control_socket::FoundJob& job : jobs) {
    const RunRank own = RunRankOf(job);
    if (own.run_id.empty() || (lowest != nullptr && own.run_id != run)) return nullptr;
    run = own.run_id;
    if (lowest == nullptr || own.rank < lowest_rank) lowest = &job, lowest_rank = own.rank;
  }
  return lowest;
}

std::string Names(const std::vector<control_socket::FoundJob>& jobs) {
  std::vector<std::string> names;
  for (const control_socket::FoundJob& job : jobs) names.push_back(job.name);
  return base::Joined(names, ", ");
}

control_socket::FindOptions Everywhere() {
  control_socket::FindOptions options;
  options.directories = sockets::RuntimeDirectories(::geteuid());
  options.named = sockets::NamedRuntimeDirectory();
  return options;
}

bool IsSocket(const std::string& path) {
  struct stat about {};
  return base::FileSystem::Real().Lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode);
}

// Two mount namespaces may have different files of one name, and the other one may be hidden from this process.
bool IsOtherFileThere(const control_socket::FoundJob& job, const std::string& config_path, const std::string& path) {
  base::FileSystem& files = base::FileSystem::Real();
  struct stat here = {}, there = {};
  const std::string seen_by_job = "/proc/" + std::to_string(job.pid) + "/root" + config_path;
  return files.Stat(path.c_str(), &here) == 0 && files.Stat(seen_by_job.c_str(), &there) == 0 &&
         (here.st_dev != there.st_dev || here.st_ino != there.st_ino);
}

bool AppliesEditsOf(const control_socket::FoundJob& job, const Json& status, const std::string& path) {
  const std::string config_path = RawText(status, "config_path");
  return IsTrue(status, "dynamic") && RealPath(config_path) == RealPath(path) &&
         !IsOtherFileThere(job, config_path, path);
}

}  // namespace

Json StatusOf(const control_socket::FoundJob& job) {
  Result<Json> status = json::Parse(job.status);
  return status.ok() && status.value().is_object() ? std::move(status).value() : Json::object();
}

RunRank RunRankOf(const control_socket::FoundJob& job) {
  const Json status = StatusOf(job);
  RunRank own{.run_id = RawText(status, "run_id")};
  if (const Json& rank = Member(status, "rank"); rank.is_number_integer()) own.rank = rank.get<int64_t>();
  if (const Json& world = Member(status, "world_size"); world.is_number_integer())
    own.world_size = world.get<int64_t>();
  return own;
}

std::vector<control_socket::FoundJob> AllJobs() {
  return control_socket::FindJobs(Everywhere());
}

std::string SearchedText() {
  const control_socket::FindOptions options = Everywhere();
  std::vector<std::string> searched;
  for (const std::string& directory : options.directories) searched.push_back(base::Printable(directory, 200));
  const std::string skipped = base::Joined(control_socket::PassedOver(options), "; ");
  return " (searched " + base::Joined(searched, ", ") + (skipped.empty() ? "" : "; skipped: " + skipped) + ")";
}

Result<control_socket::FoundJob> ChooseJob(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                           const std::string& directory) {
  std::vector<control_socket::FoundJob> matching;
  for (const control_socket::FoundJob& job : jobs)
    if (Matches(job, word, directory)) matching.push_back(job);
  if (matching.size() == 1) return matching.front();
  if (const control_socket::FoundJob* job = OfOneRun(matching)) return *job;
  if (matching.size() > 1)
    return Status(StatusCode::kInvalid, "ambiguous JOB: " + Names(matching) + "; name one of them (see stepwatch ps)");
  if (!jobs.empty())
    return Status(StatusCode::kUnavailable,
                  "no job matches \"" + base::Printable(word) + "\"; running jobs: " + Names(jobs));
  return Status(StatusCode::kUnavailable, "no running job of this user was found here");
}

Result<control_socket::FoundJob> FindJob(const std::string& word) {
  const std::string here = CurrentDirectory();
  // The path of a socket may lead outside the searched directories, and to a job of another user.
  if (const std::string path = AbsolutePath(word, here); IsSocket(path)) {
    auto found = control_socket::FindJobAt(path, Everywhere());
    if (!found.ok()) return found.status();
    if (found.value()) return *std::move(found).value();
  }
  Result<control_socket::FoundJob> chosen = ChooseJob(AllJobs(), word, here);
  if (chosen.ok() || chosen.status().code() == StatusCode::kInvalid) return chosen;
  return Status(chosen.status().code(), chosen.status().message() + SearchedText());
}

int NoJob(const Status& status, bool as_json) {
  const bool is_unclear = status.code() == StatusCode::kInvalid;
  if (as_json)
    PrintObject(http::ErrorJson(is_unclear ? "invalid" : "no_job", status.message()));
  else
    base::Print(stderr, "stepwatch: %s\n", status.message().c_str());
  return is_unclear ? kExitInvalid : kExitUnreachable;
}

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

Result<EditTarget> ChooseTarget(const std::vector<control_socket::FoundJob>& jobs, const std::string& word,
                                const std::string& directory) {
  const std::string path = word.empty() ? word : AbsolutePath(word, directory);
  EditTarget target{word, std::nullopt};
  for (const control_socket::FoundJob& job : jobs) {
    const Json status = StatusOf(job);
    // Rank 0 writes the history.
    if (!word.empty() && AppliesEditsOf(job, status, path) && (!target.job || Whole(status, "rank") == 0))
      target.job = job;
  }
  if (target.job || (!word.empty() && base::Exists(path))) return target;
  const Result<control_socket::FoundJob> job = ChooseJob(jobs, word, directory);
  if (!job.ok() && job.status().code() == StatusCode::kUnavailable && !word.empty()) return target;
  if (!job.ok()) return job.status();
  return EditTarget{RawText(StatusOf(job.value()), "config_path"), job.value()};
}

Result<EditTarget> FindTarget(const std::string& word) {
  return ChooseTarget(AllJobs(), word, CurrentDirectory());
}

std::optional<control_socket::FoundJob> JobThatWatches(const std::vector<control_socket::FoundJob>& jobs,
                                                       const std::string& file) {
  if (IsStandardInput(file)) return std::nullopt;
  const std::string path = RealPath(file);
  std::optional<control_socket::FoundJob> found;
  int64_t found_rank = 0;
  for (const control_socket::FoundJob& job : jobs) {
    const Json status = StatusOf(job);
    if (RealPath(RawText(status, "config_path")) != path) continue;
    const int64_t rank = Whole(status, "rank");
    if (found && found_rank <= rank) continue;
    found = job;
    found_rank = rank;
  }
  return found;
}

Result<control_socket::FoundJob> JobForFile(const std::vector<control_socket::FoundJob>& jobs,
                                            const std::string& file) {
  auto job = JobThatWatches(jobs, file);
  return job ? *std::move(job) : ChooseJob(jobs, "", "");
}

}  // namespace stepwatch::cli
