#include "operations/intake/answer_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "operations/intake/json_answers.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "src/http/router.h"
#include "src/logs/prefixes.h"
#include "src/logs/record_filter.h"
#include "src/logs/write_record.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kSearchTurn{5};
constexpr size_t kLimitUsual = 1000, kLimitMax = 10000;
constexpr double kTimeMax = 1e11;  // some thousand years
constexpr size_t kFilesMax = 2048;

struct LogQuery {
  logs::RecordFilter::Options filter;
  size_t limit = kLimitUsual;
};

Result<LogQuery> QueryOf(const std::string& query_untrusted) {
  std::map<std::string, std::string> sent = http::ParseQuery(query_untrusted);
  for (const auto& [name, value] : sent)
    if (name != "rank" && name != "since" && name != "severity" && name != "grep" && name != "limit")
      return Status(StatusCode::kInvalid,
                    "unknown parameter " + base::Printable(name) + "; known are rank, since, severity, grep and limit");
  LogQuery query;
  const auto refused = [&sent](const char* name, const std::string& accepted) {
    return Status(StatusCode::kInvalid,
                  fmt::format("{} must be {}, not {}", name, accepted, base::Printable(sent[name])));
  };
  if (!sent["rank"].empty()) {
    query.filter.rank = base::ParseNumber<int64_t>(sent["rank"]);
    if (!query.filter.rank || *query.filter.rank < 0) return refused("rank", "a whole number from 0");
  }
  if (!sent["since"].empty()) {
    query.filter.since_t = base::ParseNumber<double>(sent["since"]);
    if (!query.filter.since_t || !(*query.filter.since_t >= 0 && *query.filter.since_t <= kTimeMax))
      return refused("since", "a time in seconds since 1970");
  }
  if (!sent["severity"].empty()) {
    query.filter.level_min = logs::LevelOf(sent["severity"]);
    if (query.filter.level_min == logs::Level::kUnset)
      return refused("severity", "trace, debug, info, warning, error or fatal");
  }
  if (!sent["limit"].empty()) query.limit = base::ParseNumber<size_t>(sent["limit"]).value_or(0);
  if (query.limit == 0 || query.limit > kLimitMax)
    return refused("limit", fmt::format("a whole number from 1 to {}", kLimitMax));
  query.filter.pattern = sent["grep"];
  return query;
}

// A search from the newest record to the oldest.
struct Search {
  std::string run;
  Service* service = nullptr;
  logs::RecordFilter filter;
  size_t limit = 0;
  http::OnAnswer then;
  LogEvents::Events events;
  size_t left = 0;                 // not searched yet, from the begin
  std::vector<std::string> found;  // as JSON, the newest first
  bool has_more = false;
};

void Finish(const std::shared_ptr<Search>& search) {
  std::string events;
  for (auto each = search->found.rbegin(); each != search->found.rend(); ++each) {
    if (!events.empty()) events += ',';
    events += *each;
  }
  Json files = Json::array();
  for (const LogFile& file : search->service->LogFilesOf(search->run)) {
    if (files.size() == kFilesMax) break;
    files.push_back({{"path", base::ValidUtf8(file.path)}, {"rank", file.rank ? Json(*file.rank) : Json()}});
  }
  http::Answer answer;
  answer.body = fmt::format("{{\"version\":{},\"run\":{},\"events\":[{}],\"has_more\":{},\"files\":{}}}\n",
                            http::kAnswerVersion, search->run.empty() ? "null" : json::Dump(Json(search->run)), events,
                            search->has_more, json::Dump(files));
  search->then(std::move(answer));
}

void Continue(const std::shared_ptr<Search>& search) {
  const auto end = std::chrono::steady_clock::now() + kSearchTurn;
  while (search->left > 0 && !search->has_more) {
    if (std::chrono::steady_clock::now() >= end) return search->service->Later([search] { Continue(search); });
    const logs::Record& record = *search->events[--search->left];
    if (!search->filter.Selects(record)) continue;
    if (search->found.size() == search->limit)
      search->has_more = true;
    else
      search->found.push_back(logs::EcsJson(record, {search->run, ""}));
  }
  Finish(search);
}

}  // namespace

void AnswerLogs(const std::string& run, const std::string& query_untrusted, Service* service,
                const http::OnAnswer& then) {
  const Result<LogQuery> query = QueryOf(query_untrusted);
  if (!query.ok()) return then(http::BadRequest(query.status().message()));
  Result<logs::RecordFilter> filter = logs::RecordFilter::Make(query.value().filter);
  if (!filter.ok()) return then(http::BadRequest("grep: " + filter.status().message()));
  const LogEvents* events = service->log_events();
  const bool is_known = run.empty() || (events != nullptr && events->Has(run)) || service->Run(run) ||
                        service->RunOfStore(run) || !service->LogFilesOf(run).empty();
  if (!is_known) return then(Missing("unknown run " + base::Printable(run, 200)));
  auto search = std::make_shared<Search>(
      Search{run, service, std::move(filter).value(), query.value().limit, then, {}, 0, {}, false});
  if (events != nullptr) search->events = events->Of(run);
  search->left = search->events.size();
  Continue(search);
}

}  // namespace stepwatch::operations
