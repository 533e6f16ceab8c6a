#include "controller/cli/plan_job.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/preview_text.h"
#include "controller/cli/read_json.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

Result<Json> RequestPreview(const control_socket::FoundJob& job, const std::string& text) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Ask("POST", "/v1/plan", text);
  if (!reply.ok()) return Status(StatusCode::kUnavailable, reply.status().message());
  const Result<Json> answer = json::Parse(reply.value().body);
  if (reply.value().status == 404 || reply.value().status == 405)
    return Status(StatusCode::kUnavailable, "job " + job.name + " runs an older stepwatch without plan previews");
  if (reply.value().status != 200 || !answer.ok() || Text(answer.value(), "state").empty()) {
    const std::string why = answer.ok() ? Text(Part(answer.value(), "error"), "message") : "";
    return Status(StatusCode::kUnavailable,
                  "job " + job.name + " returned no preview: " + (why.empty() ? "invalid response" : why));
  }
  return answer;
}

// Without links and dots. As it is if it cannot be looked up.
std::string Resolved(const std::string& path) {
  std::string resolved;
  const bool found = base::FileSystem::Real().RealPath(path.c_str(), &resolved) == 0;
  return found ? resolved : path;
}

void PrintLines(const std::string& file, const control_socket::FoundJob& job, const Json& answer) {
  for (const Json& warning : List(answer, "warnings"))
    base::Print(stdout, "%s\n", PlacedLine(file, "warning", PlaceOf(warning), Text(warning, "message")).c_str());
  if (Text(answer, "state") == "invalid") {
    const Json& error = Part(answer, "error");
    base::Print(stderr, "%s\n", PlacedLine(file, "error", PlaceOf(error), Text(error, "message")).c_str());
  } else {
    base::Print(stdout, "%s", PreviewText(job.name, answer).c_str());
  }
}

}  // namespace

std::optional<control_socket::FoundJob> JobThatWatches(const std::vector<control_socket::FoundJob>& jobs,
                                                       const std::string& file) {
  if (IsStandardInput(file)) return std::nullopt;
  const std::string path = Resolved(file);
  std::optional<control_socket::FoundJob> found;
  int64_t found_rank = 0;
  for (const control_socket::FoundJob& job : jobs) {
    const Result<Json> status = json::Parse(job.status);
    if (!status.ok() || Resolved(Text(status.value(), "config_path")) != path) continue;
    const int64_t rank = Whole(status.value(), "rank");
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

int RunPlanOfJob(const std::string& file, const control_socket::FoundJob& job, bool json) {
  const Result<std::string> text = ReadGivenText(file);
  if (!text.ok()) {
    base::Print(stderr, "%s\n", PlacedLine(file, "error", {}, text.status().message()).c_str());
    return kExitInvalid;
  }
  const Result<Json> answer = RequestPreview(job, text.value());
  if (!answer.ok()) return NoJob(answer.status(), json);
  if (json)
    base::Print(stdout, "%s\n", json::Dump(answer.value()).c_str());
  else
    PrintLines(file, job, answer.value());
  const std::string state = Text(answer.value(), "state");
  return state == "same" ? kExitDone : state == "differs" ? kExitDiffers : kExitInvalid;
}

}  // namespace stepwatch::cli
