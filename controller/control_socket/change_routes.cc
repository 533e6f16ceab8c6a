#include "controller/control_socket/change_routes.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "controller/control_socket/json_values.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using ChangeOutcome = ChangeReport::Outcome;

constexpr uint64_t kLinesUsual = 100;
// No run reaches this step, and every JSON reader represents it exactly.
constexpr uint64_t kStepMax = uint64_t{1} << 53;

using http::ErrorAnswer;

http::Answer Conflict(const ChangeReport& report, const std::string& if_match) {
  const std::string found = report.replaced_sha256.empty() ? "no config" : report.replaced_sha256;
  Json json = http::ErrorJson("conflict", report.config_path + " holds " + found + ", not " +
                                              base::Printable(if_match) + "; nothing was changed");
  json["error"]["expected_sha256"] = if_match;
  json["error"]["found_sha256"] = report.replaced_sha256;
  http::Answer answer = http::JsonAnswer(json, 412);
  answer.etag = report.replaced_sha256;
  return answer;
}

http::Answer AnswerOf(const ChangeReport& report, const std::string& if_match) {
  switch (report.outcome) {
    case ChangeOutcome::kConflict: return Conflict(report, if_match);
    case ChangeOutcome::kEdited: return ErrorAnswer(409, "conflict", report.message);
    case ChangeOutcome::kInvalid: return ErrorAnswer(422, "invalid", report.message, report.place);
    case ChangeOutcome::kUnwritable:
      return ErrorAnswer(
          409, "unwritable",
          report.message +
              ". Change it as its owner, or at its source (a ConfigMap, an image, a mount): this job applies "
              "that as well. Or apply the text with ?volatile=1 (stepwatch apply --volatile): it then "
              "holds until the file changes or the job restarts");
    case ChangeOutcome::kNoOldConfig: return ErrorAnswer(404, "no_old_config", report.message);
    case ChangeOutcome::kStatic:
      return ErrorAnswer(409, "static",
                         "this job is in static mode: it reads its config once, at its start; nothing was changed. Set "
                         "DYNAMIC_MONITOR=true for dynamic mode");
    case ChangeOutcome::kNotReader:
      return ErrorAnswer(
          409, "not_reader",
          "rank 0 of this job reads the config; send the request to its control socket; nothing was changed");
    case ChangeOutcome::kNotReady: return http::Busy(report.message);
    case ChangeOutcome::kWritten:
    case ChangeOutcome::kUnchanged:
    case ChangeOutcome::kOverridden: break;
  }
  http::Answer answer = http::JsonAnswer(ChangeJson(report));
  answer.etag = report.outcome == ChangeOutcome::kOverridden ? report.replaced_sha256 : report.sha256;
  return answer;
}

void Begin(const Request& request, Job& job, ConfigChange change, OnAnswer then) {
  change.if_match = request.if_match == "*" ? "" : request.if_match;
  change.peer.rank = request.from_rank;
  if (request.peer) {
    change.peer.uid = request.peer->uid;
    change.peer.pid = request.peer->pid > 0 ? request.peer->pid : -1;
    change.peer.exe = request.exe;
  }
  job.ChangeConfig(std::move(change), [then = std::move(then), if_match = request.if_match](
                                          const ChangeReport& report) { then(AnswerOf(report, if_match)); });
}

// The parameters of an apply; nullopt if one is unknown or given twice.
struct ApplyQuery {
  uint64_t is_override = 0;
  uint64_t returns = 0;
  uint64_t at_step = 0;
};
std::optional<ApplyQuery> ApplyQueryFrom(std::string_view query_untrusted) {
  ApplyQuery query;
  bool has_override = false, has_return = false, has_step = false;
  while (!query_untrusted.empty()) {
    const size_t end = query_untrusted.find('&');
    const std::string each(query_untrusted.substr(0, end));
    query_untrusted.remove_prefix(end == std::string_view::npos ? query_untrusted.size() : end + 1);
    const std::optional<uint64_t> is_override = http::NumberInQuery(each, "volatile", 2);
    const std::optional<uint64_t> returns = http::NumberInQuery(each, "returns", 2);
    const std::optional<uint64_t> at_step = http::NumberInQuery(each, "at_step", kStepMax + 1);
    if (is_override && *is_override <= 1 && !std::exchange(has_override, true))
      query.is_override = *is_override;
    else if (returns && *returns <= 1 && !std::exchange(has_return, true))
      query.returns = *returns;
    else if (at_step && *at_step <= kStepMax && !std::exchange(has_step, true))
      query.at_step = *at_step;
    else
      return std::nullopt;
  }
  if (query.returns > query.is_override) return std::nullopt;
  return query;
}

// Rejects words of later releases: ignoring one would perform a different request.
bool RejectsInput(const Request& request, const OnAnswer& then) {
  if (request.query.empty() && request.body.empty()) return false;
  then(http::BadRequest("this route accepts neither parameters nor a body; found \"" +
                        base::Printable(request.query.empty() ? request.body : request.query) + "\""));
  return true;
}

void BeginSwitch(const Request& request, Job& job, ConfigChange::Verb verb, OnAnswer then) {
  if (RejectsInput(request, then)) return;
  ConfigChange change;
  change.verb = verb;
  Begin(request, job, std::move(change), std::move(then));
}

// 3 and 3.0 are the same number in JSON.
std::optional<uint64_t> WholeNumber(const Json& json) {
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  constexpr double kWholeMax = 9007199254740992;  // 2^53
  const double number = json.is_number_float() ? json.get<double>() : -1;
  if (!(number >= 0 && number <= kWholeMax) || std::floor(number) != number) return std::nullopt;
  return static_cast<uint64_t>(number);
}

// Nullopt: the request names the plan in neither way.
std::optional<PlanId> PlanOf(const Request& request) {
  std::optional<uint64_t> number = http::NumberInQuery(request.query, "plan", 0);
  if (!request.body.empty()) {
    const Result<Json> json = json::Parse(request.body);
    if (!json.ok() || !json.value().is_object()) return std::nullopt;
    if (!json.value().empty()) {
      const auto plan = json.value().find("plan");
      if (plan == json.value().end() || json.value().size() > 1 || !request.query.empty()) return std::nullopt;
      number = WholeNumber(*plan);
    }
  }
  if (!number || *number > std::numeric_limits<PlanId>::max()) return std::nullopt;
  return static_cast<PlanId>(*number);
}

// --- pause, resume, rotate ---

// Time to wait for the end of the running step. For a longer step the answer announces the change.
constexpr std::chrono::milliseconds kBoundaryTime{1000};

constexpr const char* kNotCollecting = "no plan is in force";
constexpr const char* kLoopHangs = "the job's loop thread does not answer; the request may still be carried out";

// The request applies only to the ranks of this process.
const char* RanksOf(Job& job) {
  return job.GetStatus().world_size == 1 ? "all" : "this";
}

http::Answer Pause(Job& job, bool pause) {
  using Outcome = status::PauseResult::Outcome;
  const status::PauseResult result = job.Pause(pause, kBoundaryTime);
  switch (result.outcome) {
    case Outcome::kNotCollecting: return ErrorAnswer(409, "not_collecting", kNotCollecting);
    case Outcome::kEnding:
      return ErrorAnswer(
          409, "ending",
          "an edit is under way (the window ends, or another plan replaces it); try again when it is in force");
    case Outcome::kRanks:
      return ErrorAnswer(409, "ranks",
                         "in static mode the ranks of this job cannot agree on a step at which to pause; nothing was "
                         "changed. With DYNAMIC_MONITOR=true all of them pause together");
    case Outcome::kNoAnswer: return http::Busy(kLoopHangs);
    case Outcome::kDone:
    case Outcome::kUnchanged:
    case Outcome::kAsked: break;
  }
  const char* done = pause ? "paused" : "resumed";
  const char* outcome = result.outcome == Outcome::kDone        ? done
                        : result.outcome == Outcome::kUnchanged ? "unchanged"
                                                                : "under_way";
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"outcome", outcome},
                           {"paused", result.paused},
                           {"plan_id", result.plan_id},
                           {"step", result.step},
                           {"at_step", json::Unless(result.at_step, -1)},
                           {"ranks", result.is_of_all_ranks ? "all" : "this"}},
                          result.outcome == Outcome::kAsked ? 202 : 200);
}

}  // namespace

void BeginApply(const Request& request, Job& job, OnAnswer then) {
  const std::optional<ApplyQuery> query = ApplyQueryFrom(request.query);
  if (!query)
    return then(http::BadRequest("the query may be volatile=1, with it returns=1, and at_step=N, each once; found \"" +
                                 base::Printable(request.query) + "\""));
  ConfigChange change;
  change.is_override = query->is_override == 1;
  change.returns = query->returns == 1;
  change.at_step = static_cast<int64_t>(query->at_step);
  change.text = request.body;
  Begin(request, job, std::move(change), std::move(then));
}

void BeginStart(const Request& request, Job& job, OnAnswer then) {
  BeginSwitch(request, job, ConfigChange::Verb::kStart, std::move(then));
}

void BeginStop(const Request& request, Job& job, OnAnswer then) {
  BeginSwitch(request, job, ConfigChange::Verb::kStop, std::move(then));
}

void BeginRollback(const Request& request, Job& job, OnAnswer then) {
  const std::optional<PlanId> plan_id = PlanOf(request);
  if (!plan_id)
    return then(http::BadRequest(
        "a rollback accepts ?plan=N or the body {\"plan\": N}, N being the number of a plan, or neither"));
  ConfigChange change;
  change.verb = ConfigChange::Verb::kRollback;
  change.plan_id = *plan_id;
  Begin(request, job, std::move(change), std::move(then));
}

void BeginHistory(const Request& request, Job& job, OnAnswer then) {
  const std::optional<uint64_t> count = http::NumberInQuery(request.query, "limit", kLinesUsual);
  if (!count || *count > HistoryReport::kLinesMax)
    return then(
        http::BadRequest("a history accepts ?limit=N, N being at most " + std::to_string(HistoryReport::kLinesMax)));
  job.ReadHistory([then = std::move(then), count = *count](const HistoryReport& report) {
    then(report.status.ok() ? http::JsonAnswer(HistoryJson(report, count))
                            : ErrorAnswer(404, "not_found", report.status.message()));
  });
}

void BeginConfig(const Request& request, Job& job, OnAnswer then) {
  if (!output::IsSha256(request.parameters.front()))
    return then(ErrorAnswer(404, "not_found",
                            "invalid name of a config; accepted: its SHA-256, 64 digits, as listed by /v1/history"));
  job.ReadConfig(request.parameters.front(),
                 [then = std::move(then), sha256 = request.parameters.front()](const auto& text) {
                   if (!text.ok()) return then(ErrorAnswer(404, "not_found", text.status().message()));
                   http::Answer answer;
                   answer.content_type = "application/octet-stream";
                   answer.body = text.value();
                   answer.etag = sha256;
                   then(answer);
                 });
}

http::Answer PostPause(const Request&, Job& job) {
  return Pause(job, true);
}

http::Answer PostResume(const Request&, Job& job) {
  return Pause(job, false);
}

http::Answer PostRotate(const Request&, Job& job) {
  using Outcome = status::RotateResult::Outcome;
  const status::RotateResult result = job.Rotate(kBoundaryTime);
  switch (result.outcome) {
    case Outcome::kNotCollecting:
      return ErrorAnswer(409, "not_collecting",
                         std::string(kNotCollecting) + ", and the files of the last one are closed");
    case Outcome::kUnderWay:
      return ErrorAnswer(409, "under_way",
                         "segment " + std::to_string(result.segment.number) +
                             " begins at the end of the running step; try again after that");
    case Outcome::kNoAnswer: return http::Busy(kLoopHangs);
    case Outcome::kDone:
    case Outcome::kAsked: break;
  }
  const bool is_done = result.outcome == Outcome::kDone;
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"outcome", is_done ? "rotated" : "under_way"},
                           {"segment", result.segment.number},
                           {"last_step", is_done ? json::Unless(result.segment.last_step, -1) : Json()},
                           {"directory", json::OrNull(result.directory)},
                           {"files", result.segment.files},
                           {"ranks", RanksOf(job)}},
                          is_done ? 200 : 202);
}

}  // namespace stepwatch::control_socket
