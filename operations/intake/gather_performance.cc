#include "operations/intake/gather_performance.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "src/json/members.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kSeriesOfReport = 128;
constexpr size_t kIncidentsOfRun = 500;

struct Gathering {
  Service* service = nullptr;
  std::function<void(std::optional<PerformanceReport>)> then;
  PerformanceInput input;
  std::vector<std::string> names;
  size_t read = 0;
};

// A run that only the store has.
std::optional<RunSnapshot> FromSummary(const std::string& id, const std::optional<std::string>& summary) {
  if (!summary) return std::nullopt;
  const Result<Json> parsed = json::Parse(*summary);
  if (!parsed.ok() || !parsed.value().is_object()) return std::nullopt;
  const Json& json = parsed.value();
  RunSnapshot run;
  run.id = id;
  run.ended = true;
  run.started_t = json::Number(json, "started_t");
  run.heard_t = json::Number(json, "heard_t");
  if (const int64_t step = json::Whole(json, "step"); step >= 0) run.step = step;
  return run;
}

void ReadNext(const std::shared_ptr<Gathering>& gathering) {
  if (gathering->read == gathering->names.size())
    return gathering->service->Later([gathering] { gathering->then(ReportOf(gathering->input)); });
  const std::string name = gathering->names[gathering->read++];
  gathering->service->SeriesOf(gathering->input.run.id, name, [gathering, name](std::vector<SeriesPoint> points) {
    gathering->input.series[name] = std::move(points);
    gathering->service->Later([gathering] { ReadNext(gathering); });
  });
}

}  // namespace

void GatherPerformance(const PerformanceQuery& query, Service* service,
                       std::function<void(std::optional<PerformanceReport>)> then) {
  std::optional<RunSnapshot> run = service->Run(query.run);
  if (!run) run = FromSummary(query.run, service->RunOfStore(query.run));
  if (!run) return then(std::nullopt);
  const auto gathering = std::make_shared<Gathering>();
  gathering->service = service;
  gathering->then = std::move(then);
  gathering->input.run = *std::move(run);
  gathering->input.now = service->t();
  gathering->input.window_seconds = query.window_seconds;
  gathering->input.legacy = query.legacy;
  for (StoredIncident& each : service->incidents().List({false, query.run, kIncidentsOfRun}))
    gathering->input.incidents.push_back(std::move(each.incident));
  service->SeriesNames(query.run, [gathering](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (IsOfReport(name) && gathering->names.size() < kSeriesOfReport) gathering->names.push_back(name);
    ReadNext(gathering);
  });
}

}  // namespace stepwatch::operations
