// `stepwatch pause`, `resume` and `rotate` act on a running job and leave its config file unchanged.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/verbs.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

struct PauseArguments {
  std::string job;  // a JOB argument of FindJob
  bool json = false;
};

constexpr int kHttpDone = 200, kHttpAccepted = 202, kHttpConflict = 409;

std::string ErrorOf(const Json& answer) {
  const std::string message = Text(Part(answer, "error"), "message");
  return message.empty() ? "invalid response of the job" : message;
}

// `path`: that of the request; `text`: makes a line from its answer.
int Send(const PauseArguments& arguments, const char* path, std::string (*text)(const Json& answer)) {
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
  for (const Json& file : List(answer, "files"))
    if (file.is_string()) text += "\n" + base::Printable(file.get<std::string>(), 1000);
  return text;
}

// 0: done; 2: ambiguous JOB; 5: not possible here, or requested and not done yet; 6: no such job, or it does not
// answer; 7: no change needed.
int RunPause(const PauseArguments& arguments) {
  return Send(arguments, "/v1/pause", PausedText);
}

int RunResume(const PauseArguments& arguments) {
  return Send(arguments, "/v1/resume", ResumedText);
}

int RunRotate(const PauseArguments& arguments) {
  return Send(arguments, "/v1/rotate", RotatedText);
}

void AddVerb(CLI::App* app, const std::string& name, const std::string& what, const std::string& more,
             int (*run)(const PauseArguments&), int* exit_code) {
  const auto arguments = std::make_shared<PauseArguments>();
  CLI::App* verb = app->add_subcommand(name, what);
  verb->add_option("JOB", arguments->job, kJobHelp);
  verb->add_flag("--json", arguments->json, "print the response of the job, one JSON object");
  verb->footer(more + "\nExamples: stepwatch " + name + "; stepwatch " + name +
               " config.json --json\n"
               "Exit codes: 0 done, 2 ambiguous JOB, 5 not possible here, or not done within a second, 6 no such job,\n"
               "7 no change.");
  verb->callback([=] { *exit_code = run(*arguments); });
}

}  // namespace

void AddPauseVerbs(CLI::App* app, int* exit_code) {
  AddVerb(app, "pause", "Pause the collection of a running job",
          "The pause begins at the next step; the plan keeps its window and its count. The config file does not "
          "change. The\n"
          "next edit or a stop ends the pause. Ranks that share a store pause at the step on which they agree.",
          RunPause, exit_code);
  AddVerb(app, "resume", "Resume the collection of a paused job",
          "Collection continues at the next step, until the plan has collected all its steps.", RunResume, exit_code);
  AddVerb(
      app, "rotate", "Close the output files of a running job and start new ones",
      "From the next step on rows go to new files with the suffix _s2, _s3 and so on; closed files do not change any\n"
      "more.",
      RunRotate, exit_code);
}

}  // namespace stepwatch::cli
