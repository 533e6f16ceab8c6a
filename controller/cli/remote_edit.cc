#include "controller/cli/remote_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "controller/cli/config_file.h"
#include "controller/cli/edit_wait.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kEditAnswerTime{10};
constexpr std::chrono::seconds kEditPatience{60};
constexpr std::chrono::milliseconds kAgain{200};
constexpr int kBusy = 503;

ExitCode ExitCodeOf(int status, const std::string& code) {
  if (code == "conflict") return kExitConflict;
  if (code == "invalid" || code == "no_old_config" || status == 400) return kExitInvalid;
  if (status == 409) return kExitDegraded;  // not possible here
  return kExitUnreachable;
}

EditWait::Goal GoalOf(const std::string& word) {
  if (word == "stopped") return EditWait::Goal::kStopped;
  return word == "drained" ? EditWait::Goal::kDrained : EditWait::Goal::kApplied;
}

std::string TakenText(const Json& change) {
  const std::string taken = Text(change, "taken");
  const uint64_t plan = Count(change, "plan_id");
  if (taken == "armed") return fmt::format("plan {} waits for step {}", plan, Whole(change, "at_step"));
  if (taken == "running") return fmt::format("plan {} is active", plan);
  if (taken == "stopping") return fmt::format("plan {} ends at the next step", plan);
  if (taken == "off") return "collection is off";
  if (taken == "superseded") return "a newer edit was saved";
  if (taken == "pending") return "not decided yet";
  return taken == "refused" ? "refused: " + Text(Part(change, "refusal"), "message") : taken;
}

EditResult ErrorResult(const control_socket::FoundJob& job, const RemoteEdit& edit, int status, const Json& json) {
  const Json& error = Part(json, "error");
  EditResult result{ExitCodeOf(status, Text(error, "code")), json, ""};
  result.json["via"] = "door";
  result.json["job"] = job.name;
  const std::string message = Text(error, "message");
  if (result.exit_code == kExitInvalid && Count(error, "line") > 0)
    result.line = PlacedLine(edit.name, "error", PlaceOf(error), message);
  else
    result.line = base::Printable(fmt::format("stepwatch: error: {}: {}", job.name, message), 2000);
  return result;
}

EditResult DoneResult(const control_socket::FoundJob& job, const RemoteEdit& edit, const Json& json) {
  const bool is_written = Text(json, "outcome") == "written";
  const std::string taken = Text(json, "taken");
  const bool is_given = Text(json, "outcome") == "given";
  const bool is_begun = json.value("begun_again", Json()) == true;
  EditResult result{is_written || is_given || is_begun ? kExitDone : kExitNoChange, json, ""};
  if (taken == "refused" || taken == "superseded") result.exit_code = kExitNotAgreed;
  result.json["via"] = "door";
  result.json["job"] = job.name;
  const uint64_t old_plan = Count(json, "old_plan_id");
  const std::string done = old_plan == 0 ? edit.done : fmt::format("restored to the config of plan {}", old_plan);
  result.line = base::Printable(fmt::format("{} {}; {}: {}", Text(json, "config"),
                                            is_given     ? "unchanged; " + edit.name + " overrides it until it changes"
                                            : is_written ? done
                                            : is_begun   ? "unchanged; its window starts again"
                                                         : "already holds this config: no change",
                                            job.name, TakenText(json)),
                                2000);
  return result;
}

// Nobody has taken the request.
bool IsUntaken(const Result<http::Reply>& reply, const std::string& code) {
  return reply.ok() ? (reply.value().status == 404 && code == "not_found") || reply.value().status == 405
                    : reply.status().code() != StatusCode::kTimedOut;
}

Json ObjectIn(const Result<http::Reply>& reply) {
  const Result<Json> json = reply.ok() ? json::Parse(reply.value().body) : Result<Json>(reply.status());
  return json.ok() && json.value().is_object() ? json.value() : Json::object();
}

Json StatusOf(const http::Client& client) {
  return ObjectIn(client.Get("/v1/status"));
}

}  // namespace

std::optional<EditResult> EditRunningJob(const control_socket::FoundJob& job, const RemoteEdit& edit) {
  const http::Client client = control_socket::ClientOf(job);
  const http::ClientRequest question{"POST", edit.target, edit.body, edit.if_match, output::RandomRunId()};
  const Clock::time_point deadline = Clock::now() + kEditPatience;
  for (bool is_first = true;; is_first = false) {
    const Result<http::Reply> reply = client.Ask(question, kEditAnswerTime);
    const Json json = ObjectIn(reply);
    if (IsUntaken(reply, Text(Part(json, "error"), "code"))) {
      if (is_first) return std::nullopt;
      return Failure(kExitUnreachable, "door", "gone",
                     job.name + " is gone; it may or may not have changed its config");
    }
    if (reply.ok() && reply.value().status == 200) return DoneResult(job, edit, json);
    if (reply.ok() && reply.value().status != kBusy) return ErrorResult(job, edit, reply.value().status, json);
    if (Clock::now() >= deadline)
      return Failure(kExitUnreachable, "door", "timeout",
                     job.name +
                         " has not confirmed the edit within a minute; `stepwatch status` shows the content of its "
                         "config");
    std::this_thread::sleep_for(kAgain);
  }
}

std::optional<EditResult> ValidateInJob(const control_socket::FoundJob& job, const std::string& name,
                                        const std::string& text) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Ask("POST", "/v1/validate", text);
  const Json json = ObjectIn(reply);
  if (!reply.ok() || reply.value().status != 200 || !json.contains("valid")) return std::nullopt;
  const bool is_valid = json["valid"] == true;
  EditResult result{is_valid ? kExitDone : kExitInvalid, json, ""};
  result.json["via"] = "door";
  result.json["job"] = job.name;
  const Json& error = Part(json, "error");
  result.line = is_valid ? base::Printable(name + ": valid for " + job.name, 2000)
                         : PlacedLine(name, "error", PlaceOf(error), Text(error, "message"));
  return result;
}

void AwaitEdit(const control_socket::FoundJob& job, const WaitArguments& arguments, EditResult* result) {
  const bool may_wait = result->exit_code == kExitDone || result->exit_code == kExitNoChange;
  if (arguments.goal.empty() || !may_wait) return;
  const http::Client client = control_socket::ClientOf(job);
  EditWait wait(GoalOf(arguments.goal), result->json,
                arguments.is_stop ? EditWait::Verb::kStop : EditWait::Verb::kBegin);
  const bool tells = arguments.tells && IsTerminal();
  const auto tell = [tells](const std::vector<std::string>& lines) {
    for (const std::string& line : lines)
      if (tells) base::Print(stdout, "%s\n", base::Printable(line, 2000).c_str());
    if (tells) std::fflush(stdout);
  };
  if (arguments.tells) base::Print(stdout, "%s\n", result->line.c_str());
  std::fflush(stdout);
  const Clock::time_point begin = Clock::now();
  const auto is_late = [&] {
    return arguments.timeout > 0 && Clock::now() - begin >= std::chrono::duration<double>(arguments.timeout);
  };
  // From before the verb: a plan may have begun, and ended, by now.
  const Result<Json> before = json::Parse(job.status);
  uint64_t last = before.ok() ? Count(before.value(), "newest_event") : 0;
  bool is_gone = false;
  const auto ask = [&] {
    const Json status = StatusOf(client);
    if (!status.empty()) tell(wait.OnStatus(status));
    return !wait.end() && !is_late();
  };
  while (!wait.end() && !is_late() && !is_gone) {
    const Status followed = client.Follow(
        last,
        [&](const std::string& name, const std::string& data) {
          const Result<Json> event = json::Parse(data);
          if (!event.ok() || !event.value().is_object()) return true;
          last = std::max(last, Count(event.value(), "id"));
          tell(wait.OnEvent(name, event.value()));
          return ask();
        },
        ask);
    is_gone = !followed.ok() && followed.code() != StatusCode::kTimedOut;
  }
  if (is_gone) wait.OnGone();
  result->json.update(wait.facts());
  result->json["reached"] = wait.end() == EditWait::End::kReached;
  if (wait.plan_id() != 0) result->json["plan_id"] = wait.plan_id();
  if (wait.end() == EditWait::End::kReached) {
    result->line = base::Printable(fmt::format("{}: {}", job.name, arguments.goal), 2000);
    return;
  }
  const bool is_refused = wait.end() == EditWait::End::kFailed || wait.is_aborted();
  result->exit_code = is_refused ? kExitNotAgreed : is_gone ? kExitUnreachable : kExitDegraded;
  const std::string why = is_refused ? wait.why()
                          : is_gone  ? "the job is gone"
                                     : fmt::format("not {} within {} s; it goes on", arguments.goal, arguments.timeout);
  result->json["why"] = why;
  result->line = base::Printable("stepwatch: error: " + job.name + ": " + why, 2000);
}

}  // namespace stepwatch::cli
