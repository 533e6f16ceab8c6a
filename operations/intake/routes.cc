#include "operations/intake/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/intake/answer_logs.h"
#include "operations/intake/cause_line.h"
#include "operations/intake/gather_performance.h"
#include "operations/intake/json_answers.h"
#include "operations/intake/service.h"
#include "operations/intake/take_beats.h"
#include "operations/performance/report_json.h"
#include "operations/runs/time_account.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "src/http/event_stream.h"
#include "src/http/metrics_page.h"
#include "src/http/router.h"
#include "src/json/json.h"

namespace stepwatch::operations {
namespace {

using http::Answer;

constexpr const char* kLinkPath = "/v1/acknowledge/{incident}/{expiry}/{signature}";
constexpr size_t kIncidentsMax = 2000;
constexpr size_t kEventsOfPage = 50;
constexpr size_t kRunMax = 200;
constexpr double kSentMax = 1e11;  // some thousand years
constexpr int kRetryAfterSeconds = 5;
// Amount of long work in one turn of the loop.
constexpr std::chrono::milliseconds kTurn{5};
constexpr int64_t kLinesAtOnce = 50;

constexpr size_t kTextMax = 1000;
constexpr double kSilenceSecondsMax = 366 * 86400.0;

// A request for a route.
struct RouteCall {
  const IntakeRequest& request;
  const std::vector<std::string> parameters;  // the parts of the path in the places of {…}
  const std::string query;                    // as sent
  Service* const service;
  const http::OnAnswer then;
};

Json IncidentNow(Service* service, const StoredIncident& each) {
  Json json =
      IncidentAnswer(each.incident, each.acknowledgement, service->incidents().SilenceOf(each.incident, service->t()));
  const LogEvents* events = service->log_events();
  json["log_line"] = events == nullptr ? Json() : CauseLine(*events, each.incident);
  return json;
}

size_t CharactersIn(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// --- lists ---

// A list of possibly thousands of members, made over as many turns of the loop as necessary.
struct LongList {
  Service* service = nullptr;
  size_t count = 0;
  std::function<std::string(size_t i)> member;  // as JSON text; empty: left out
  std::function<void(const std::string& members)> then;
  size_t made = 0;
  std::string text = {};
};

void Make(const std::shared_ptr<LongList>& list) {
  const auto end = std::chrono::steady_clock::now() + kTurn;
  while (list->made < list->count) {
    if (std::chrono::steady_clock::now() >= end) return list->service->Later([list] { Make(list); });
    const std::string member = list->member(list->made++);
    if (member.empty()) continue;
    if (!list->text.empty()) list->text += ',';
    list->text += member;
  }
  list->then(list->text);
}

// An answer with the list, and the further members in `rest`, which begins with a comma or is empty.
std::function<void(const std::string& members)> ListAnswer(const http::OnAnswer& then, const char* name,
                                                           const std::string& rest = "") {
  return [then, name, rest](const std::string& members) {
    Answer answer;
    answer.body = fmt::format("{{\"version\":{},\"{}\":[{}]{}}}\n", http::kAnswerVersion, name, members, rest);
    then(std::move(answer));
  };
}

// --- beats ---

Answer TooMany() {
  Answer answer = http::Busy("stepwatchd has too many lines waiting; try again in a few seconds");
  answer.status = 429;
  answer.retry_after = kRetryAfterSeconds;
  return answer;
}

// Empty if no clock can have shown this time.
std::optional<double> SentTime(const std::string& text_untrusted) {
  const std::optional<double> number = base::ParseNumber<double>(text_untrusted);
  return number && *number >= 0 && *number <= kSentMax ? number : std::nullopt;
}

struct ReadingBeats {
  ReadingBeats(const RouteCall& call, std::optional<double> sent_at)
      : service(call.service), then(call.then), body(call.request.body), sent(sent_at), now(call.service->t()) {}

  Service* const service;
  const http::OnAnswer then;
  const std::string body;
  const std::optional<double> sent;
  const double now;
  BeatReader reader{body};
};

void ReadBeats(const std::shared_ptr<ReadingBeats>& reading) {
  const auto end = std::chrono::steady_clock::now() + kTurn;
  while (reading->reader.ReadSome(kLinesAtOnce))
    if (std::chrono::steady_clock::now() >= end) return reading->service->Later([reading] { ReadBeats(reading); });
  TakenBeats taken = reading->reader.Finish(reading->sent, reading->now);
  Json refusals = Json::array();
  for (const auto& [line, why] : taken.refusals) refusals.push_back({{"line", line}, {"message", why}});
  Json members = {{"taken", taken.lines.size()}, {"refused", taken.refused}, {"refusals", std::move(refusals)}};
  reading->service->CountRefused(taken.refused);
  reading->service->Take(std::move(taken.lines),
                         [then = reading->then, members = std::move(members)] { then(AnswerWith(members)); });
}

void PostBeats(const RouteCall& call) {
  if (call.service->IsBehind()) return call.then(TooMany());
  const std::optional<double> sent = SentTime(call.request.sent);
  if (!sent && !call.request.sent.empty())
    return call.then(http::BadRequest("Stepwatch-Sent must be a time in seconds since 1970, not " +
                                      base::Printable(call.request.sent)));
  ReadBeats(std::make_shared<ReadingBeats>(call, sent));
}

// --- logs ---

// "application/json; charset=utf-8": the same without parameters, in small letters.
std::string PlainMediaType(const std::string& content_type_untrusted) {
  std::string type = content_type_untrusted.substr(0, content_type_untrusted.find_first_of("; "));
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type;
}

Answer UnsupportedBody(const std::string& what) {
  return http::ErrorAnswer(415, "unsupported_media_type", what);
}

void PostLogs(const RouteCall& call) {
  LogPosts* const logs = call.service->log_posts();
  if (logs == nullptr) return call.then(Missing("no logs are read"));
  const std::string encoding = PlainMediaType(call.request.content_encoding);
  if (!encoding.empty() && encoding != "identity")
    return call.then(UnsupportedBody("the body must not be compressed; its Content-Encoding is " +
                                     base::Printable(call.request.content_encoding)));
  const std::string type = PlainMediaType(call.request.content_type);
  // "application/x-www-form-urlencoded" is what curl sends by default.
  const bool is_accepted = type.empty() || type.starts_with("text/") || type.find("json") != std::string::npos ||
                           type == "application/x-www-form-urlencoded";
  if (!is_accepted)
    return call.then(UnsupportedBody(
        "the body must be JSON: lines of objects, or OTLP with Content-Type application/json; its Content-Type is " +
        base::Printable(call.request.content_type)));
  std::map<std::string, std::string> sent = http::ParseQuery(call.query);
  const std::optional<int64_t> rank = base::ParseNumber<int64_t>(sent["rank"]);
  if (!sent["rank"].empty() && (!rank || *rank < 0))
    return call.then(http::BadRequest("rank must be a number from 0 on, not " + base::Printable(sent["rank"])));
  if (CharactersIn(sent["run"]) > kRunMax)
    return call.then(http::BadRequest(fmt::format("run must have at most {} characters", kRunMax)));
  if (call.service->IsBehind() || !logs->Take({sent["run"], rank, call.request.body}, call.then))
    return call.then(TooMany());
}

// --- runs ---

void GetRuns(const RouteCall& call) {
  struct Runs {
    std::vector<RunSnapshot> seen;
    std::vector<std::string> stored;
    std::map<std::string, int64_t> open;
  };
  const auto runs = std::make_shared<Runs>(Runs{call.service->Runs(), call.service->RunsOfStore(), {}});
  for (const StoredIncident& each : call.service->incidents().Open()) ++runs->open[each.incident.run];
  const auto member = [runs](size_t i) -> std::string {
    const bool is_seen = i < runs->seen.size();
    const Result<Json> found = is_seen ? RunJson(runs->seen[i]) : json::Parse(runs->stored[i - runs->seen.size()]);
    if (!found.ok() || !found.value().is_object()) return "";
    Json json = found.value();
    const auto open = runs->open.find(is_seen ? runs->seen[i].id : json.value("id", ""));
    json["incidents_open"] = open == runs->open.end() ? 0 : open->second;
    return json::Dump(json);
  };
  Make(std::make_shared<LongList>(
      LongList{call.service, runs->seen.size() + runs->stored.size(), member, ListAnswer(call.then, "runs")}));
}

void GetRun(const RouteCall& call) {
  const std::string& id = call.parameters[0];
  Json json;
  if (const std::optional<RunSnapshot> run = call.service->Run(id)) {
    json = RunJson(*run);
    Json ranks = Json::array();
    for (const RankSnapshot& rank : run->ranks) ranks.push_back(RankJson(rank));
    json["ranks"] = std::move(ranks);
  } else if (const std::optional<std::string> summary = call.service->RunOfStore(id)) {
    Result<Json> parsed = json::Parse(*summary);
    if (parsed.ok()) json = std::move(parsed).value();
    if (json.is_object()) json["ranks"] = Json::array();
  }
  if (!json.is_object()) return call.then(Missing("unknown run " + base::Printable(id, 200)));
  call.service->SeriesNames(id, [then = call.then, json = std::move(json)](const std::vector<std::string>& names) {
    Json members = json;
    std::vector<std::string> by_step = names;
    std::erase_if(by_step, [](const std::string& name) { return IsTimeSeries(name); });
    members["series"] = by_step;
    then(AnswerWith(std::move(members)));
  });
}

void GetSeries(const RouteCall& call) {
  const std::string run = call.parameters[0], name = call.parameters[1];
  call.service->SeriesOf(run, name, [then = call.then, run, name](const std::vector<SeriesPoint>& points) {
    if (points.empty())
      return then(Missing("run " + base::Printable(run, 200) + " has no series " + base::Printable(name, 200)));
    Json list = Json::array();
    for (const SeriesPoint& point : points) list.push_back(PointJson(point));
    then(AnswerWith({{"run", run}, {"name", name}, {"points", std::move(list)}}));
  });
}

// A positive number in the query; nullopt: it is no such number.
std::optional<double> PositiveOr(std::map<std::string, std::string>* sent, const char* name, double usual, double max) {
  const std::string& text = (*sent)[name];
  if (text.empty()) return usual;
  const std::optional<double> number = base::ParseNumber<double>(text);
  return number && *number > 0 && *number <= max ? number : std::nullopt;
}

void GetPerformance(const RouteCall& call) {
  constexpr double kWindowUsual = 86400, kWindowMax = 3660 * 86400.0, kReferenceMax = 1e12;
  std::map<std::string, std::string> sent = http::ParseQuery(call.query);
  const auto window = PositiveOr(&sent, "last", kWindowUsual, kWindowMax);
  const auto reference = PositiveOr(&sent, "reference", LegacySettings().samples_per_second, kReferenceMax);
  if (!window || !reference)
    return call.then(http::BadRequest(
        window ? fmt::format("reference, in samples a second, must be a number above 0 and at most {:g}, not {}",
                             kReferenceMax, base::Printable(sent["reference"]))
               : fmt::format("last, in seconds, must be a number above 0 and at most {:.0f}, not {}", kWindowMax,
                             base::Printable(sent["last"]))));
  const std::string run = call.parameters[0];
  GatherPerformance({run, *window, {*reference}}, call.service,
                    [then = call.then, run](const std::optional<PerformanceReport>& report) {
                      if (!report) return then(Missing("unknown run " + base::Printable(run, 200)));
                      then(AnswerWith(ReportJson(*report)));
                    });
}

void GetLogs(const RouteCall& call) {
  AnswerLogs(call.parameters[0], call.query, call.service, call.then);
}

void GetLogsOfMachine(const RouteCall& call) {
  AnswerLogs("", call.query, call.service, call.then);
}

// --- incidents ---

void GetIncidents(const RouteCall& call) {
  IncidentRegistry::Query query;
  std::map<std::string, std::string> sent = http::ParseQuery(call.query);
  const std::string& state = sent["state"];
  if (!state.empty() && state != "open" && state != "all")
    return call.then(http::BadRequest("state must be open or all, not " + base::Printable(state)));
  query.open_only = state != "all";
  query.run = sent["run"];
  if (CharactersIn(query.run) > kRunMax)
    return call.then(http::BadRequest(fmt::format("run must have at most {} characters", kRunMax)));
  if (!sent["limit"].empty()) query.limit = base::ParseNumber<size_t>(sent["limit"]).value_or(0);
  if (query.limit == 0 || query.limit > kIncidentsMax)
    return call.then(http::BadRequest(fmt::format("limit must be a number from 1 to {}", kIncidentsMax)));
  const auto found = std::make_shared<std::vector<StoredIncident>>(call.service->incidents().List(query));
  const auto member = [found, service = call.service](size_t i) {
    return json::Dump(IncidentNow(service, (*found)[i]));
  };
  const std::string number = fmt::format(",\"number\":{}", call.service->incidents().number_last());
  Make(std::make_shared<LongList>(
      LongList{call.service, found->size(), member, ListAnswer(call.then, "incidents", number)}));
}

Json ChangeJson(const StoredChange& change, const Silence* silence) {
  Json json = IncidentAnswer(change.incident, change.acknowledgement, silence);
  json["number"] = change.number;
  json["change"] = change.what;
  return json;
}

void GetIncident(const RouteCall& call) {
  const std::string& id = call.parameters[0];
  const StoredIncident* found = call.service->incidents().Find(id);
  Json now = found == nullptr ? Json() : IncidentNow(call.service, *found);
  call.service->ChangesOf(id, [then = call.then, now = std::move(now), id](const std::vector<StoredChange>& changes) {
    if (now.is_null() && changes.empty()) return then(Missing("unknown incident " + base::Printable(id, 200)));
    Json list = Json::array();
    for (const StoredChange& change : changes) list.push_back(ChangeJson(change, nullptr));
    const Json last =
        now.is_null() ? IncidentAnswer(changes.back().incident, changes.back().acknowledgement, nullptr) : now;
    then(AnswerWith({{"incident", last}, {"changes", std::move(list)}}));
  });
}

// --- acknowledgements and silences ---

// The members of a body, or the reason why it is unusable. `keys`: name, and whether it is a number.
Result<Json> BodyOf(const RouteCall& call, const std::map<std::string, bool>& keys) {
  const Result<Json> parsed = json::Parse(call.request.body.empty() ? "{}" : call.request.body);
  if (parsed.status().code() == StatusCode::kExhausted)
    return Status(StatusCode::kExhausted, "the body " + parsed.status().message());
  if (!parsed.ok() || !parsed.value().is_object()) return Status(StatusCode::kInvalid, "the body is not a JSON object");
  const Json& body = parsed.value();
  for (const auto& [key, value] : body.items()) {
    const auto known = keys.find(key);
    if (known == keys.end()) return Status(StatusCode::kInvalid, "unknown key " + base::Printable(key));
    if (known->second ? !value.is_number() : !value.is_string())
      return Status(StatusCode::kWrongType, key + " must be " + (known->second ? "a number" : "text"));
    if (value.is_string() && CharactersIn(value.get_ref<const std::string&>()) > kTextMax)
      return Status(StatusCode::kOutOfRange, fmt::format("{} must have at most {} characters", key, kTextMax));
  }
  return body;
}

std::string NewId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

Answer NoSuchKind(const std::string& kind_untrusted) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kIncidentKinds; ++i) names.push_back(NameOf(static_cast<IncidentKind>(i)));
  const std::string_view nearest = base::NearestWord(kind_untrusted, names);
  return http::BadRequest("unknown kind of incident " + base::Printable(kind_untrusted) +
                          (nearest.empty() ? fmt::format("; the kinds are {}", fmt::join(names, ", "))
                                           : fmt::format("; the nearest kind is {}", nearest)));
}

Answer NoRoom() {
  const std::string message =
      fmt::format("there are {} silences, which is the limit; end some first", IncidentRegistry::kSilencesMax);
  return AnswerWith({{"error", {{"code", "no_room"}, {"message", message}}}}, 409);
}

void PostAck(const RouteCall& call) {
  const Result<Json> body = BodyOf(call, {{"by", false}, {"note", false}});
  if (!body.ok()) return call.then(http::BadRequest(body.status().message()));
  const std::string id = call.parameters[0];
  Service* service = call.service;
  const Acknowledgement acknowledgement{body.value().value("by", ""), body.value().value("note", ""), service->t()};
  const bool is_there = service->Acknowledge(id, acknowledgement, [then = call.then, service, id] {
    const StoredIncident* found = service->incidents().Find(id);
    if (found == nullptr) return then(Missing("the incident was removed in the meantime"));
    then(AnswerWith({{"incident", IncidentNow(service, *found)}}));
  });
  if (!is_there) call.then(Missing("unknown incident " + base::Printable(id, 200)));
}

void PostSilence(const RouteCall& call) {
  const Result<Json> body =
      BodyOf(call, {{"run", false}, {"kind", false}, {"seconds", true}, {"by", false}, {"note", false}});
  if (!body.ok()) return call.then(http::BadRequest(body.status().message()));
  const double seconds = body.value().value("seconds", 0.0);
  if (!(seconds > 0) || seconds > kSilenceSecondsMax)
    return call.then(http::BadRequest("seconds, the duration of the silence, must be above 0 and at most 366 days"));
  Silence silence;
  silence.id = NewId();
  silence.run = body.value().value("run", "");
  silence.kind = body.value().value("kind", "");
  silence.by = body.value().value("by", "");
  silence.note = body.value().value("note", "");
  silence.created_t = call.service->t();
  silence.until_t = silence.created_t + seconds;
  if (silence.kind.find('*') == std::string::npos && !silence.kind.empty() && !IncidentKindNamed(silence.kind))
    return call.then(NoSuchKind(silence.kind));
  (void)call.service->incidents().Silences(silence.created_t);  // expired ones make room
  const bool is_added = call.service->AddSilence(silence, [then = call.then, silence] {
    then(AnswerWith({{"silence", SilenceJson(silence)}}));
  });
  if (!is_added) call.then(NoRoom());
}

void GetSilences(const RouteCall& call) {
  Json list = Json::array();
  for (const Silence& each : call.service->incidents().Silences(call.service->t())) list.push_back(SilenceJson(each));
  call.then(AnswerWith({{"silences", std::move(list)}}));
}

void DeleteSilence(const RouteCall& call) {
  const std::string id = call.parameters[0];
  const bool is_removed = call.service->RemoveSilence(id, [then = call.then, id] {
    then(AnswerWith({{"removed", id}}));
  });
  if (!is_removed) call.then(Missing("unknown silence " + base::Printable(id, 200)));
}

// --- messages ---

void GetDeliveries(const RouteCall& call) {
  constexpr size_t kMax = 1000, kUsual = 100;
  Deliveries* deliveries = call.service->deliveries();
  if (deliveries == nullptr) return call.then(Missing("no messages are sent"));
  const std::optional<uint64_t> limit = http::NumberInQuery(call.query, "limit", kUsual);
  if (!limit || *limit == 0 || *limit > kMax)
    return call.then(http::BadRequest(fmt::format("limit must be a number from 1 to {}", kMax)));
  call.then(deliveries->List(*limit));
}

void PostNotify(const RouteCall& call) {
  Deliveries* deliveries = call.service->deliveries();
  if (deliveries == nullptr) return call.then(Missing("no messages are sent"));
  deliveries->Notify(call.parameters[0], call.request.body, call.then);
}

void AnswerLink(const RouteCall& call) {
  Deliveries* deliveries = call.service->deliveries();
  if (deliveries == nullptr || !deliveries->HasLinks())
    return call.then(Missing("links are disabled: \"listen.public_url\" is not set"));
  deliveries->AnswerLink({call.request.method == "POST", call.parameters, call.request.body}, call.then);
}

// --- itself ---

void GetMetrics(const RouteCall& call) {
  const http::MetricsFormat format = http::WantedFormat(call.request.accept);
  call.service->Metrics(format, [then = call.then, format](std::string page) {
    Answer answer;
    answer.content_type = http::ContentTypeOf(format);
    answer.body = std::move(page);
    then(std::move(answer));
  });
}

// The answer is a list, as Prometheus wants it.
void GetTargets(const RouteCall& call) {
  const std::string& which = call.parameters[0];
  if (which != "stepwatchd" && which != "jobs" && which != "all")
    return call.then(Missing("unknown targets " + base::Printable(which) + "; known are stepwatchd, jobs and all"));
  call.service->Targets(which != "jobs", which != "stepwatchd", [then = call.then](std::string json) {
    Answer answer;
    answer.content_type = "application/json";
    answer.body = std::move(json);
    then(std::move(answer));
  });
}

void GetHealthy(const RouteCall& call) {
  call.then(AnswerWith({{"healthy", true}}));
}

void GetReady(const RouteCall& call) {
  const Status ready = call.service->Ready();
  call.then(AnswerWith({{"ready", ready.ok()}, {"why", ready.ok() ? Json() : Json(ready.message())}},
                       ready.ok() ? 200 : 503));
}

struct Route {
  const char* method;
  const char* path;
  void (*answer)(const RouteCall& call);
};

const std::vector<Route>& Routes() {
  static const std::vector<Route> routes = {
      {"POST", "/v1/beats", PostBeats},
      {"POST", "/v1/logs", PostLogs},
      {"GET", "/v1/runs", GetRuns},
      {"GET", "/v1/runs/{run}", GetRun},
      {"GET", "/v1/runs/{run}/series/{name}", GetSeries},
      {"GET", "/v1/runs/{run}/performance", GetPerformance},
      {"GET", "/v1/runs/{run}/logs", GetLogs},
      {"GET", "/v1/logs", GetLogsOfMachine},
      {"GET", "/v1/incidents", GetIncidents},
      {"GET", "/v1/incidents/{incident}", GetIncident},
      {"POST", "/v1/incidents/{incident}/ack", PostAck},
      {"GET", "/v1/silences", GetSilences},
      {"POST", "/v1/silences", PostSilence},
      {"DELETE", "/v1/silences/{silence}", DeleteSilence},
      {"GET", "/v1/deliveries", GetDeliveries},
      {"POST", "/v1/notify/{receiver}", PostNotify},
      {"GET", kLinkPath, AnswerLink},
      {"POST", kLinkPath, AnswerLink},
      {"GET", "/metrics", GetMetrics},
      {"GET", "/v1/sd/{jobs}", GetTargets},
      {"GET", "/-/healthy", GetHealthy},
      {"GET", "/-/ready", GetReady},
  };
  return routes;
}

}  // namespace

void AnswerIntake(const IntakeRequest& request, Service* service, http::OnAnswer then) {
  http::Match<Route> match =
      http::FindRoute(Routes(), request.method, http::ParseTarget(request.target, http::PathRule::kLenient));
  if (match.route == nullptr)
    return then(match.allow.empty()
                    ? Missing("unknown path " + base::Printable(request.target, 200) + "; start with GET /v1/runs")
                    : http::NoSuchMethod(request.target, match.allow));
  if (!request.may_write && request.method != "GET") return then(http::ReadersOnlyGet(request.method, "stepwatchd"));
  match.route->answer({request, std::move(match.parameters), std::move(match.query), service, std::move(then)});
}

bool IsLink(const std::string& target) {
  std::vector<std::string> parameters;
  return http::MatchPath(kLinkPath, http::ParseTarget(target, http::PathRule::kLenient), &parameters);
}

bool IsEventStream(const std::string& method, const std::string& target) {
  return method == "GET" &&
         http::ParseTarget(target, http::PathRule::kLenient).parts == std::vector<std::string>{"v1", "events"};
}

std::string EventTextAfter(int64_t* last, Service* service) {
  const IncidentRegistry::EventPage page = service->incidents().After(*last, kEventsOfPage);
  std::string text;
  if (page.misses_some && !page.changes.empty())
    text = http::EventText(std::nullopt, "gap", json::Dump({{"version", http::kAnswerVersion}, {"after", *last}}));
  for (const StoredChange& change : page.changes) {
    Json json = http::VersionedAnswer();
    json.update(ChangeJson(change, service->incidents().SilenceOf(change.incident, service->t())));
    text += http::EventText(change.number, change.what, json::Dump(json));
    *last = change.number;
  }
  return text;
}

}  // namespace stepwatch::operations
