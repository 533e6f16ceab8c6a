#include "controller/cli/motion_commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/read_json.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr int kHttpDone = 200, kHttpAccepted = 202, kHttpConflict = 409;

std::string ErrorOf(const Json& answer) {
  const auto error = answer.find("error");
  const std::string message = error != answer.end() && error->is_object() ? Text(*error, "message") : "";
  return message.empty() ? "invalid response of the job" : message;
}

// What the job does is asked for with this path; `text` says in a line what came of it.
int RunMotion(const MotionArguments& arguments, const char* path, std::string (*text)(const Json& answer)) {
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  const Result<http::Reply> reply = control_socket::ClientOf(job.value()).Ask("POST", path);
  if (!reply.ok()) return NoJob(Status(StatusCode::kUnavailable, reply.status().message()), arguments.json);
  const Result<Json> answer = json::Parse(reply.value().body);
  if (!answer.ok() || !answer.value().is_object())
    return NoJob(Status(StatusCode::kUnavailable, job.value().path + " returned no JSON object"), arguments.json);
  const int status = reply.value().status;
  const bool is_taken = status == kHttpDone || status == kHttpAccepted;
  if (arguments.json)
    base::Print(stdout, "%s\n", json::Dump(answer.value()).c_str());
  else if (is_taken)
    base::Print(stdout, "%s\n", text(answer.value()).c_str());
  else
    base::Print(stderr, "stepwatch: %s\n", ErrorOf(answer.value()).c_str());
  if (status == kHttpDone) return Text(answer.value(), "outcome") == "unchanged" ? kExitNoChange : kExitDone;
  return is_taken || status == kHttpConflict ? kExitDegraded : kExitUnreachable;
}

std::string OneRank(const Json& answer) {
  return Text(answer, "ranks") == "this" ? " (this rank alone)" : "";
}

std::string PauseText(const Json& answer, const char* done, const char* later) {
  const std::string outcome = Text(answer, "outcome");
  const std::string plan = fmt::format("plan {}", Whole(answer, "plan_id"));
  if (outcome == "unchanged") return plan + " is " + done + " already";
  const int64_t at_step = Whole(answer, "at_step");
  const std::string from = at_step < 0 ? "" : fmt::format(" from step {} on", at_step);
  if (outcome == "under_way")
    return from.empty() ? fmt::format(
                              "{} {} when step {} ends, or at the step that the ranks agree on; this takes a "
                              "while",
                              plan, later, Whole(answer, "step"))
                        : fmt::format("{} {}{}, if the ranks agree", plan, later, from);
  return plan + " is " + done + from + OneRank(answer);
}

std::string PausedText(const Json& answer) {
  return PauseText(answer, "paused", "pauses");
}

std::string ResumedText(const Json& answer) {
  return PauseText(answer, "resumed", "goes on");
}

std::string RotatedText(const Json& answer) {
  const std::string segment = std::to_string(Whole(answer, "segment"));
  if (Text(answer, "outcome") == "under_way")
    return "segment " + segment + " begins when the running step has ended and its rows are written";
  std::string text = "segment " + segment + " begins" + OneRank(answer);
  if (const std::string directory = Text(answer, "directory"); !directory.empty()) text += "; closed in " + directory;
  const auto files = answer.find("files");
  if (files != answer.end() && files->is_array())
    for (const Json& file : *files)
      if (file.is_string()) text += "\n" + base::Printable(file.get<std::string>(), 1000);
  return text;
}

}  // namespace

int RunPause(const MotionArguments& arguments) {
  return RunMotion(arguments, "/v1/pause", PausedText);
}

int RunResume(const MotionArguments& arguments) {
  return RunMotion(arguments, "/v1/resume", ResumedText);
}

int RunRotate(const MotionArguments& arguments) {
  return RunMotion(arguments, "/v1/rotate", RotatedText);
}

}  // namespace stepwatch::cli
