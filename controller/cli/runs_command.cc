#include "controller/cli/runs_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/incident_text.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/wall_clock.h"
#include "src/base/print.h"
#include "src/json/json.h"

namespace stepwatch::cli {

int RunRuns(const RunsArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  Result<Json> answer = client.value().Get("/v1/runs");
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  const Json& listed = List(answer.value(), "runs");
  const std::vector<Json> all(listed.begin(), listed.end());
  std::vector<Json> runs;
  for (const Json& run : all)
    if (arguments.all || IsOfInterest(run)) runs.push_back(run);
  if (arguments.json) {
    Json told = std::move(answer).value();
    told["runs"] = runs;
    PrintObject(told);
    return kExitDone;
  }
  if (!runs.empty()) base::Print(stdout, "%s", RunsText(runs, all, WallSeconds()).c_str());
  if (all.empty()) base::Print(stderr, "stepwatch: stepwatchd at %s has no runs\n", client.value().socket().c_str());
  if (const size_t hidden = all.size() - runs.size(); hidden > 0)
    base::Print(stderr, "note: %zu ended run%s hidden; --all shows all runs\n", hidden, hidden == 1 ? "" : "s");
  return kExitDone;
}

}  // namespace stepwatch::cli
