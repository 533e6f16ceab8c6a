#include "controller/cli/remote_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "controller/cli/config_file.h"
#include "controller/cli/find_job.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
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

// The job did not process the request.
bool IsUnprocessed(const Result<http::Reply>& reply, const std::string& code) {
  return reply.ok() ? (reply.value().status == 404 && code == "not_found") || reply.value().status == 405
                    : reply.status().code() != StatusCode::kTimedOut;
}

Json ObjectIn(const Result<http::Reply>& reply) {
  const Result<Json> json = reply.ok() ? json::Parse(reply.value().body) : Result<Json>(reply.status());
  return json.ok() && json.value().is_object() ? json.value() : Json::object();
}

bool IsQuiet(const std::string& state) {
  return state == "IDLE" || state == "OFF" || state == "FAILED";
}

}  // namespace

EditResult Failure(ExitCode exit_code, const char* via, const char* code, const std::string& message) {
  EditResult result{exit_code, http::ErrorJson(code, message), "stepwatch: error: " + message};
  result.json["via"] = via;
  return result;
}

EditResult Unusable(const char* via, const std::string& path, const Status& refusal) {
  EditResult result{kExitInvalid, http::ErrorJson("invalid", refusal.message(), refusal.place()), ""};
  result.json["via"] = via;
  result.line = PlacedLine(path, "error", refusal.place(), refusal.message()) + "; the config is unchanged";
  return result;
}

int PrintResult(const EditResult& result, bool as_json) {
  const bool is_done = result.exit_code == kExitDone || result.exit_code == kExitNoChange;
  std::FILE* out = as_json || is_done ? stdout : stderr;
  base::Print(out, "%s\n", as_json ? json::Dump(result.json).c_str() : result.line.c_str());
  std::fflush(out);
  return result.exit_code;
}

std::optional<EditResult> EditRunningJob(const control_socket::FoundJob& job, const RemoteEdit& edit) {
  const http::Client client = control_socket::ClientOf(job);
  const http::ClientRequest question{"POST", edit.target, edit.body, edit.if_match, output::RandomRunId()};
  const Clock::time_point deadline = Clock::now() + kEditPatience;
  for (bool is_first = true;; is_first = false) {
    const Result<http::Reply> reply = client.Ask(question, kEditAnswerTime);
    const Json json = ObjectIn(reply);
    if (IsUnprocessed(reply, Text(Part(json, "error"), "code"))) {
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
  const bool prints_stages = arguments.prints && IsTerminal();
  const auto print = [prints_stages](const std::vector<std::string>& lines) {
    if (!prints_stages) return;
    for (const std::string& line : lines) base::Print(stdout, "%s\n", base::Printable(line, 2000).c_str());
    std::fflush(stdout);
  };
  if (arguments.prints) base::Print(stdout, "%s\n", result->line.c_str());
  std::fflush(stdout);
  const Clock::time_point begin = Clock::now();
  const auto is_late = [&] {
    return arguments.timeout > 0 && Clock::now() - begin >= std::chrono::duration<double>(arguments.timeout);
  };
  // The status from before the edit: by now a plan may have begun and ended.
  uint64_t last = Count(StatusOf(job), "newest_event");
  bool is_gone = false;
  const auto ask = [&] {
    const Json status = ObjectIn(client.Get("/v1/status"));
    if (!status.empty()) print(wait.OnStatus(status));
    return !wait.end() && !is_late();
  };
  while (!wait.end() && !is_late() && !is_gone) {
    const Status followed = client.Follow(
        last,
        [&](const std::string& name, const std::string& data) {
          const Result<Json> event = json::Parse(data);
          if (!event.ok() || !event.value().is_object()) return true;
          last = std::max(last, Count(event.value(), "id"));
          print(wait.OnEvent(name, event.value()));
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

EditWait::EditWait(Goal goal, const Json& change, Verb verb)
    : goal_(goal),
      sha256_(Text(change, "sha256")),
      is_stop_(verb == Verb::kStop || Text(change, "taken") == "stopping" || Text(change, "taken") == "off"),
      plan_id_(Count(change, "plan_id")),
      is_begin_seen_(Text(change, "taken") == "running") {
  const std::string taken = Text(change, "taken");
  if (taken == "refused") Fail("refused: " + Text(Part(change, "refusal"), "message"));
  if (taken == "superseded") Fail("a newer edit was saved");
  const bool is_over = goal == Goal::kApplied || (goal == Goal::kStopped && taken == "off");
  if (!end_ && is_stop_ && is_over) end_ = End::kReached;  // no plan to apply, or no active plan
}

void EditWait::Fail(const std::string& why) {
  end_ = End::kFailed;
  why_ = why;
}

std::vector<std::string> EditWait::OnEvent(const std::string& name, const Json& event) {
  if (end_) return {};
  const std::string message = Text(event, "message");
  if (name == "gap") is_begin_seen_ = true;
  if (name == "refused" && Text(event, "sha256") == sha256_) {
    Fail("refused: " + message);
    return {why_};
  }
  if (plan_id_ == 0 || Count(event, "plan") != plan_id_) return {};
  if (name == "aborted") {
    is_aborted_ = true;
    why_ = "the ranks did not agree: " + message;
    return {why_ + "; retrying"};
  }
  if (name == "superseded") {
    is_superseded_ = true;
    why_ = "superseded: " + message;
    return {};
  }
  if (name == "applied") {
    is_aborted_ = false;
    is_begin_seen_ = true;
    facts_["applied_step"] = Count(event, "step");
    return {fmt::format("plan {} applied: first step {}", plan_id_, Count(event, "step"))};
  }
  if (name == "finished") {
    is_finished_ = true;
    return {fmt::format("plan {} finished: {}", plan_id_, message)};
  }
  if (name != "drained") return {};
  is_drained_ = true;
  const Json& ledger = Part(event, "ledger");
  facts_["collected_steps"] = Count(event, "collected_steps");
  facts_["ledger"] = ledger;
  return {fmt::format("plan {} drained: {} of {} rows written", plan_id_, Count(ledger, "written"),
                      Count(ledger, "produced"))};
}

uint64_t EditWait::PlanIn(const Json& status) const {
  for (const char* name : {"armed", "plan"}) {
    const Json& plan = Part(status, name);
    if (Text(plan, "config_sha256") == sha256_) return Count(plan, "plan_id");
  }
  return 0;
}

bool EditWait::IsStopOver(const std::string& state) const {
  if (goal_ == Goal::kStopped && (is_finished_ || is_drained_ || state == "DRAINING")) return true;
  if (plan_id_ != 0 && goal_ != Goal::kStopped) return is_drained_;
  return IsQuiet(state);
}

std::vector<std::string> EditWait::OnStatus(const Json& status) {
  if (end_) return {};
  if (is_stop_) {
    if (IsStopOver(Text(status, "state"))) end_ = End::kReached;
    return {};
  }
  // The plan of an edit gets a new number when the model grows, or a rank has used the old one.
  const uint64_t plan_id = PlanIn(status);
  std::vector<std::string> lines;
  if (plan_id != 0 && plan_id != plan_id_) {
    plan_id_ = plan_id;
    is_drained_ = is_superseded_ = false;
    lines.push_back(fmt::format("compiled as plan {}", plan_id));
  }
  const bool is_ours = !is_superseded_ && (plan_id != 0 || Text(status, "file_sha256") == sha256_);
  const Json& plan = Part(status, "plan");
  const bool is_active = plan_id_ != 0 && Count(plan, "plan_id") == plan_id_;
  const bool writes_nothing = is_active && Count(plan, "rows_per_step") == 0 && Count(status, "collected") > 0;
  if (!has_rows_ && plan_id_ != 0 && (Count(status, "written_plan_id") == plan_id_ || writes_nothing)) {
    has_rows_ = true;
    lines.push_back(writes_nothing ? "this rank writes no rows" : "rows of the first collected step written");
  }
  if (is_drained_ || (goal_ == Goal::kApplied && has_rows_ && is_begin_seen_))
    end_ = End::kReached;
  else if (is_superseded_)
    Fail(why_);
  else if (plan_id_ == 0 && !is_ours)
    Fail("a newer edit was saved");
  return lines;
}

void EditWait::OnGone() {
  if (!end_ && (is_drained_ || (is_finished_ && goal_ == Goal::kStopped))) end_ = End::kReached;
}

}  // namespace stepwatch::cli
