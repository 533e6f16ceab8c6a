#include "controller/cli/incidents_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/incident_text.h"
#include "controller/cli/incidents_watch.h"
#include "controller/cli/meant_ids.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/wall_clock.h"
#include "src/base/print.h"
#include "src/json/json.h"

namespace stepwatch::cli {

int RunIncidents(const IncidentsArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  std::string run;
  if (!arguments.run.empty()) {
    const Result<std::string> meant = MeantRun(client.value(), arguments.run);
    const bool may_come = arguments.watch && meant.status().code() == StatusCode::kNotFound;
    if (!meant.ok() && !may_come) return FailOperations(meant.status(), arguments.json);
    run = meant.ok() ? meant.value() : arguments.run;
    if (!meant.ok()) base::Print(stderr, "note: %s; it may come\n", meant.status().message().c_str());
  }
  if (arguments.watch) return WatchIncidents(client.value(), run, arguments.json);
  const Result<Json> answer = client.value().Get(fmt::format(
      "/v1/incidents?state={}&limit={}&run={}", arguments.all ? "all" : "open", arguments.limit, UrlPiece(run)));
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  if (arguments.json) {
    PrintObject(answer.value());
    return kExitDone;
  }
  const Json& list = List(answer.value(), "incidents");
  if (list.empty())
    base::Print(stderr, "stepwatch: no incident %s%s\n", arguments.all ? "is known" : "is open",
                run.empty() ? "" : " of this run");
  else
    base::Print(stdout, "%s", IncidentsText(std::vector<Json>(list.begin(), list.end()), WallSeconds()).c_str());
  if (list.size() == static_cast<size_t>(arguments.limit))
    base::Print(stderr, "note: there may be more; --limit shows them\n");
  return kExitDone;
}

}  // namespace stepwatch::cli
