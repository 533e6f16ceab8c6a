#include "controller/cli/meant_ids.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/id_prefix.h"
#include "controller/cli/incident_text.h"
#include "controller/cli/read_json.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr const char* kAllIncidents = "/v1/incidents?state=all&limit=2000";

}  // namespace

Result<std::string> MeantRun(const StepwatchdClient& client, const std::string& beginning) {
  const Result<Json> runs = client.Get("/v1/runs");
  if (!runs.ok()) return runs.status();
  const Result<Json> incidents = client.Get(kAllIncidents);
  if (!incidents.ok()) return incidents.status();
  std::map<std::string, std::string> known;
  for (const Json& each : List(incidents.value(), "incidents")) known[RawText(each, "run")] = "forgotten";
  for (const Json& each : List(runs.value(), "runs")) known[RawText(each, "id")] = RunStateText(each);
  known.erase("");
  return MeantId(beginning, {known.begin(), known.end()}, "run");
}

Result<std::string> MeantIncident(const StepwatchdClient& client, const std::string& beginning) {
  const Result<Json> incidents = client.Get(kAllIncidents);
  if (!incidents.ok()) return incidents.status();
  std::vector<KnownId> known;
  for (const Json& each : List(incidents.value(), "incidents"))
    known.emplace_back(RawText(each, "id"),
                       Text(each, "incident") + " in " + Text(each, "run") + (IsOpen(each) ? "" : ", resolved"));
  return MeantId(beginning, known, "incident");
}

}  // namespace stepwatch::cli
