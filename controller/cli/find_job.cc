#include "controller/cli/find_job.h"

#include <unistd.h>

#include <cstdio>

#include "controller/cli/exit_code.h"
#include "controller/door/json_values.h"
#include "controller/door/runtime_directory.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

bool IsMeant(const door::FoundJob& job, const std::string& wanted, const std::string& directory) {
  if (wanted.empty() || wanted == job.name || wanted == std::to_string(job.pid) || wanted == job.path) return true;
  const Result<door::Json> status = door::ParseJson(job.status);
  if (!status.ok() || !status.value().is_object()) return false;
  const auto text = [&](const char* name) {
    const auto found = status.value().find(name);
    return found != status.value().end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string path = wanted.front() == '/' ? wanted : base::JoinPath(directory, wanted);
  return text("config_path") == path || text("run_id").starts_with(wanted);
}

std::string Names(const std::vector<door::FoundJob>& jobs) {
  std::string names;
  for (const door::FoundJob& job : jobs) names += (names.empty() ? "" : ", ") + job.name;
  return names;
}

}  // namespace

std::vector<door::FoundJob> AllJobs() {
  door::FindOptions options;
  options.directories = door::RuntimeDirectories(::geteuid());
  return door::FindJobs(options);
}

Result<door::FoundJob> ChooseJob(const std::vector<door::FoundJob>& jobs, const std::string& wanted,
                                 const std::string& directory) {
  std::vector<door::FoundJob> meant;
  for (const door::FoundJob& job : jobs)
    if (IsMeant(job, wanted, directory)) meant.push_back(job);
  if (meant.size() == 1) return meant.front();
  if (meant.size() > 1)
    return Status(StatusCode::kInvalid, "several jobs run: " + Names(meant) + "; name one (stepwatch ps lists them)");
  if (!jobs.empty())
    return Status(StatusCode::kUnavailable,
                  "no job here is called \"" + base::Printable(wanted) + "\"; there are " + Names(jobs));
  return Status(StatusCode::kUnavailable, "no job of this user runs here with its door open");
}

Result<door::FoundJob> FindJob(const std::string& wanted) {
  std::string here;
  (void)base::FileSystem::Real().CurrentDirectory(&here);
  Result<door::FoundJob> chosen = ChooseJob(AllJobs(), wanted, here);
  if (chosen.ok() || chosen.status().code() == StatusCode::kInvalid) return chosen;
  std::string looked;
  for (const std::string& directory : door::RuntimeDirectories(::geteuid()))
    looked += (looked.empty() ? "" : ", ") + base::Printable(directory, 200);
  return Status(chosen.status().code(), chosen.status().message() + " (looked into " + looked + ")");
}

int NoJob(const Status& status) {
  std::fprintf(stderr, "stepwatch: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInvalid ? kExitInvalid : kExitUnreachable;
}

}  // namespace stepwatch::cli
