#include "controller/cli/find_job.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/exit_code.h"
#include "controller/cli/print_answer.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::cli {
namespace {

bool IsMeant(const control_socket::FoundJob& job, const std::string& wanted, const std::string& directory) {
  if (wanted.empty() || wanted == job.name || wanted == std::to_string(job.pid) || wanted == job.path) return true;
  const Result<Json> status = json::Parse(job.status);
  if (!status.ok() || !status.value().is_object()) return false;
  const auto text = [&](const char* name) {
    const auto found = status.value().find(name);
    return found != status.value().end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string path = wanted.front() == '/' ? wanted : base::JoinPath(directory, wanted);
  return text("config_path") == path || text("run_id").starts_with(wanted);
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
  std::string names;
  for (const control_socket::FoundJob& job : jobs) names += (names.empty() ? "" : ", ") + job.name;
  return names;
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

}  // namespace

RunRank RunRankOf(const control_socket::FoundJob& job) {
  RunRank own;
  const Result<Json> status = json::Parse(job.status);
  if (!status.ok() || !status.value().is_object()) return own;
  const auto run = status.value().find("run_id"), rank = status.value().find("rank"),
             world = status.value().find("world_size");
  const auto end = status.value().end();
  if (run != end && run->is_string()) own.run_id = run->get<std::string>();
  if (rank != end && rank->is_number_integer()) own.rank = rank->get<int64_t>();
  if (world != end && world->is_number_integer()) own.world_size = world->get<int64_t>();
  return own;
}

std::vector<control_socket::FoundJob> AllJobs() {
  return control_socket::FindJobs(Everywhere());
}

std::string WhereLooked() {
  const control_socket::FindOptions options = Everywhere();
  std::string looked;
  for (const std::string& directory : options.directories)
    looked += (looked.empty() ? "" : ", ") + base::Printable(directory, 200);
  const std::string passed_over = base::Joined(control_socket::PassedOver(options), "; ");
  return " (searched " + looked + (passed_over.empty() ? "" : "; skipped: " + passed_over) + ")";
}

Result<control_socket::FoundJob> ChooseJob(const std::vector<control_socket::FoundJob>& jobs, const std::string& wanted,
                                           const std::string& directory) {
  std::vector<control_socket::FoundJob> meant;
  for (const control_socket::FoundJob& job : jobs)
    if (IsMeant(job, wanted, directory)) meant.push_back(job);
  if (meant.size() == 1) return meant.front();
  if (const control_socket::FoundJob* job = OfOneRun(meant)) return *job;
  if (meant.size() > 1)
    return Status(StatusCode::kInvalid, "ambiguous JOB: " + Names(meant) + "; name one of them (see stepwatch ps)");
  if (!jobs.empty())
    return Status(StatusCode::kUnavailable,
                  "no job matches \"" + base::Printable(wanted) + "\"; running jobs: " + Names(jobs));
  return Status(StatusCode::kUnavailable, "no running job of this user was found here");
}

Result<control_socket::FoundJob> FindJob(const std::string& wanted) {
  std::string here;
  (void)base::FileSystem::Real().CurrentDirectory(&here);
  // A socket that is named need not lie where sockets are looked for, and may be another user's.
  if (const std::string path = wanted.starts_with('/') ? wanted : base::JoinPath(here, wanted); IsSocket(path)) {
    auto found = control_socket::FindJobAt(path, Everywhere());
    if (!found.ok()) return found.status();
    if (found.value()) return *std::move(found).value();
  }
  Result<control_socket::FoundJob> chosen = ChooseJob(AllJobs(), wanted, here);
  if (chosen.ok() || chosen.status().code() == StatusCode::kInvalid) return chosen;
  return Status(chosen.status().code(), chosen.status().message() + WhereLooked());
}

int NoJob(const Status& status, bool as_json) {
  const bool is_unclear = status.code() == StatusCode::kInvalid;
  if (as_json)
    PrintObject(http::ErrorJson(is_unclear ? "invalid" : "no_job", status.message()));
  else
    base::Print(stderr, "stepwatch: %s\n", status.message().c_str());
  return is_unclear ? kExitInvalid : kExitUnreachable;
}

}  // namespace stepwatch::cli
