#include "controller/control_socket/routes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "controller/control_socket/change_routes.h"
#include "controller/control_socket/json_values.h"
#include "controller/control_socket/metrics.h"
#include "controller/control_socket/ranks.h"
#include "controller/status/status_json.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"
#include "src/http/metrics_page.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

using status::JobStatus;
using Way = Route::Way;

constexpr bool kReads = false, kChanges = true;
constexpr bool kOfJob = true;
constexpr bool kUrgent = true;

// Time for the drain and for devices with pending numbers. Numbers that are late are left out.
constexpr std::chrono::milliseconds kLatestTime{1000};
// Time for ranks to receive a question and answer it; longer if they compile a plan. Shorter than the time limit of a
// rank that forwarded the request.
constexpr std::chrono::milliseconds kReportTime{1500};
constexpr std::chrono::milliseconds kTrialTime{3500};
// Maximum count of lines in one answer; a client requests more with `since`.
constexpr size_t kBeatLinesMax = 2000;

http::Answer GetStatus(const Request&, Job& job) {
  const JobStatus status = job.GetStatus();
  http::Answer answer = http::JsonAnswer(status::StatusJson(status));
  answer.etag = status.reload.file_sha256;
  return answer;
}

void BeginRanks(const Request&, Job& job, OnAnswer then) {
  job.AskRanks(
      QuestionText({RankMatter::kReport, ""}), kReportTime,
      [own = job.GetStatus(), then = std::move(then)](const Result<RankWords>& words) {
        then(words.ok() ? http::JsonAnswer(RanksJson(own, words.value())) : http::Busy(words.status().message()));
      });
}

void BeginDryRun(const Request& request, Job& job, OnAnswer then) {
  const JobStatus own = job.GetStatus();
  const std::string sha256 = base::Sha256Hex(request.body);
  Status refusal = config::ParseConfig(request.body).status();
  if (refusal.ok() && base::ValidUtf8(request.body) != request.body)
    refusal = Status(StatusCode::kInvalid, "the config is not valid UTF-8");
  if (!refusal.ok()) return then(http::JsonAnswer(RefusedTrialsJson(own, sha256, refusal)));
  job.AskRanks(QuestionText({RankMatter::kTrial, request.body}), kTrialTime,
               [own, sha256, then = std::move(then)](const Result<RankWords>& words) {
                 then(words.ok() ? http::JsonAnswer(TrialsJson(own, sha256, words.value()))
                                 : http::Busy(words.status().message()));
               });
}

http::Answer PostValidate(const Request& request, Job&) {
  return http::JsonAnswer(ValidationJson(base::Sha256Hex(request.body), config::ParseConfig(request.body)));
}

// Adds to each kind of sites its measured cost per collected step, if this run has measured it.
void AddCosts(const status::MeasuringCost& cost, Json* preview) {
  const auto sites = preview->find("sites");
  if (sites == preview->end()) return;
  for (Json& kind : *sites) {
    Json& seconds = kind["seconds_per_collected_step"] = Json();
    for (size_t i = 0; i < cost.total.ns.size(); ++i)
      if (cost.total.ns[i] > 0 && kind["kind"] == cost.NameOf(i)) seconds = cost.per_collected[i];
  }
}

http::Answer PostPlan(const Request& request, Job& job) {
  const Result<PlanPreview> preview = job.Preview(request.body);
  if (!preview.ok()) return http::Busy(preview.status().message());
  Json json = PlanPreviewJson(preview.value());
  AddCosts(job.GetStatus().cost, &json);
  return http::JsonAnswer(json);
}

http::Answer GetLatest(const Request& request, Job& job) {
  const std::string& wanted = request.parameters.front();
  std::string kinds;
  for (const SiteKindTraits& traits : kSiteKindTraits) {
    if (wanted == traits.name) return http::JsonAnswer(LatestJson(traits.kind, job.Latest(traits.kind, kLatestTime)));
    kinds += (kinds.empty() ? "" : ", ") + std::string(traits.name);
  }
  return http::ErrorAnswer(404, "not_found",
                           "unknown kind \"" + base::Printable(wanted) + "\"; the kinds are " + kinds);
}

http::Answer GetBeats(const Request& request, Job& job) {
  const std::optional<uint64_t> since = http::NumberInQuery(request.query, "since", 0);
  if (!since)
    return http::BadRequest("the query may be since=NUMBER, the `next` of an earlier answer; found \"" +
                            base::Printable(request.query) + "\"");
  const BeatPage page = job.BeatsAfter(*since, kBeatLinesMax);
  const Json head = {
      {"version", http::kAnswerVersion}, {"run", page.run_id}, {"rank", page.rank},      {"next", page.next},
      {"newest", page.newest},           {"lost", page.lost},  {"dropped", page.dropped}};
  http::Answer answer = http::JsonAnswer(head);
  answer.body.back() = ',';
  answer.body += "\"beats\":[";
  for (const std::string& line : page.lines) answer.body.append(&line == &page.lines.front() ? "" : ",").append(line);
  answer.body += "]}";
  return answer;
}

http::Answer GetMetrics(const Request& request, Job& job) {
  const http::MetricsFormat format = http::WantedFormat(request.accept);
  http::Answer answer;
  answer.content_type = http::ContentTypeOf(format);
  answer.body = MetricsText(job.GetStatus(), format, ReadSites(job));
  return answer;
}

http::Answer GetDoctor(const Request&, Job& job) {
  return http::JsonAnswer(DoctorJson(job.Examine()));
}

}  // namespace

const std::vector<Route>& Routes() {
  static const std::vector<Route> routes = {
      {"GET", "/v1/status", Way::kAtOnce, GetStatus},
      {"GET", "/v1/ranks", Way::kLater, nullptr, BeginRanks, kReads, kOfJob},
      {"POST", "/v1/dry-run", Way::kLater, nullptr, BeginDryRun, kReads, kOfJob},
      {"POST", "/v1/validate", Way::kOnWorker, PostValidate},
      {"POST", "/v1/plan", Way::kOnWorker, PostPlan},
      {"GET", "/v1/latest/{kind}", Way::kOnWorker, GetLatest},
      {"GET", "/v1/events", Way::kEvents, nullptr},
      {"GET", "/v1/pulse", Way::kPulse, nullptr},
      {"GET", "/v1/beats", Way::kOnWorker, GetBeats},
      {"GET", "/v1/doctor", Way::kOnWorker, GetDoctor},
      {"GET", "/metrics", Way::kOnWorker, GetMetrics},
      {"POST", "/v1/apply", Way::kLater, nullptr, BeginApply, kChanges, kOfJob},
      {"POST", "/v1/start", Way::kLater, nullptr, BeginStart, kChanges, kOfJob},
      {"POST", "/v1/stop", Way::kLater, nullptr, BeginStop, kChanges, kOfJob, kUrgent},
      {"POST", "/v1/rollback", Way::kLater, nullptr, BeginRollback, kChanges, kOfJob},
      {"POST", "/v1/pause", Way::kOnWorker, PostPause, nullptr, kChanges, kOfJob},
      {"POST", "/v1/resume", Way::kOnWorker, PostResume, nullptr, kChanges, kOfJob},
      {"POST", "/v1/rotate", Way::kOnWorker, PostRotate, nullptr, kChanges},
      {"GET", "/v1/history", Way::kLater, nullptr, BeginHistory, kReads, kOfJob},
      {"GET", "/v1/configs/{sha256}", Way::kLater, nullptr, BeginConfig, kReads, kOfJob},
  };
  return routes;
}

Match FindRoute(std::string_view method, std::string_view target_untrusted) {
  return http::FindRoute(Routes(), method, http::ParseTarget(target_untrusted, http::PathRule::kVerbatim));
}

}  // namespace stepwatch::control_socket
