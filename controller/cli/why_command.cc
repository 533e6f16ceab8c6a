#include "controller/cli/why_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/incident_text.h"
#include "controller/cli/meant_ids.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/text_table.h"
#include "controller/cli/wall_clock.h"
#include "controller/cli/why_text.h"
#include "src/base/print.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kUsualWidth = 80;

Result<std::vector<Json>> IncidentsOf(const StepwatchdClient& client, const char* state, const std::string& run,
                                      int limit) {
  const Result<Json> answer =
      client.Get(fmt::format("/v1/incidents?state={}&limit={}&run={}", state, limit, UrlPiece(run)));
  if (!answer.ok()) return answer.status();
  const Json& list = List(answer.value(), "incidents");
  std::vector<Json> incidents(list.begin(), list.end());
  std::stable_sort(incidents.begin(), incidents.end(), IsWorse);
  return incidents;
}

// The run with the worst incident; empty: none is open.
Result<std::string> WorstRun(const StepwatchdClient& client) {
  const Result<std::vector<Json>> open = IncidentsOf(client, "open", "", 2000);
  if (!open.ok()) return open.status();
  return open.value().empty() ? std::string() : RawText(open.value().front(), "run");
}

std::vector<control_socket::FoundJob> JobsOf(const std::string& run) {
  std::vector<control_socket::FoundJob> jobs;
  for (const control_socket::FoundJob& job : AllJobs())
    if (RunRankOf(job).run_id == run) jobs.push_back(job);
  return jobs;
}

void AddChanges(const StepwatchdClient& client, const std::vector<control_socket::FoundJob>& jobs, WhyFacts* facts) {
  const Moment moment = MomentOf(facts->incidents.front());
  facts->changes = FindEdits(jobs, facts->run, moment);
  const Result<Json> rates = client.Get("/v1/runs/" + UrlPiece(facts->run) + "/series/lr");
  const std::string jump = rates.ok() ? LearningRateJump(List(rates.value(), "points"), moment) : "";
  if (!jump.empty()) facts->changes.lines.push_back(jump);
}

Result<WhyFacts> CollectFacts(const StepwatchdClient& client, const std::string& run) {
  WhyFacts facts;
  facts.run = run;
  // A run may be forgotten before its incidents are.
  const Result<Json> detail = client.Get("/v1/runs/" + UrlPiece(run));
  if (!detail.ok() && detail.status().code() != StatusCode::kNotFound) return detail.status();
  facts.detail = detail.ok() ? detail.value() : Json::object();
  for (const char* state : {"open", "all"}) {
    if (!facts.incidents.empty()) break;
    Result<std::vector<Json>> found = IncidentsOf(client, state, run, state == std::string("open") ? 2000 : 1);
    if (!found.ok()) return found.status();
    facts.incidents = std::move(found).value();
  }
  if (facts.incidents.empty()) return facts;
  const std::vector<control_socket::FoundJob> jobs = JobsOf(run);
  AddChanges(client, jobs, &facts);
  facts.layer = FindLayer(jobs, facts.detail, facts.incidents.front());
  return facts;
}

}  // namespace

int RunWhy(const WhyArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  const Result<std::string> run =
      arguments.run.empty() ? WorstRun(client.value()) : MeantRun(client.value(), arguments.run);
  if (!run.ok()) return FailOperations(run.status(), arguments.json);
  if (run.value().empty()) {
    if (arguments.json) PrintObject(WhyJson({}));
    if (!arguments.json)
      base::Print(stdout, "no incident is open; `stepwatch incidents --all` shows those that were\n");
    return kExitDone;
  }
  const Result<WhyFacts> facts = CollectFacts(client.value(), run.value());
  if (!facts.ok()) return FailOperations(facts.status(), arguments.json);
  if (arguments.json) {
    PrintObject(WhyJson(facts.value()));
    return kExitDone;
  }
  const int width = TerminalWidth();
  std::string text = WhyText(facts.value(), WallSeconds(), width > 0 ? static_cast<size_t>(width) : kUsualWidth);
  if (arguments.stacks) text += WhyStacksText(facts.value());
  base::Print(stdout, "%s", text.c_str());
  return kExitDone;
}

}  // namespace stepwatch::cli
