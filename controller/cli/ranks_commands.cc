#include "controller/cli/ranks_commands.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/ranks_text.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr std::chrono::seconds kRanksAnswerTime{10};
constexpr const char* kOfThisHost = "the ranks share no store; these are the ranks of this run on this host";

Status OddAnswer(const std::string& path, const http::Reply& reply) {
  const Result<Json> json = json::Parse(reply.body);
  std::string why = "returned status " + std::to_string(reply.status);
  if (json.ok() && json.value().is_object() && json.value().contains("error") && json.value()["error"].is_object() &&
      json.value()["error"].contains("message") && json.value()["error"]["message"].is_string())
    why += ": " + base::Printable(json.value()["error"]["message"].get<std::string>(), 1000);
  return Status(StatusCode::kUnavailable, path + " " + why);
}

Result<Json> SendRequest(const control_socket::FoundJob& job, const std::string& method, const std::string& target,
                         const std::string& body = "") {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Ask(method, target, body, kRanksAnswerTime);
  if (!reply.ok()) return Status(StatusCode::kUnavailable, reply.status().message());
  Result<Json> json = json::Parse(reply.value().body);
  if (reply.value().status != 200 || !json.ok() || !json.value().is_object()) return OddAnswer(job.path, reply.value());
  return json;
}

bool HasText(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string();
}

std::string RunOf(const control_socket::FoundJob& job) {
  const Result<Json> status = json::Parse(job.status);
  const bool is_told = status.ok() && status.value().is_object() && HasText(status.value(), "run_id");
  return is_told ? status.value()["run_id"].get<std::string>() : "";
}

Result<Json> AskRanks(const control_socket::FoundJob& job) {
  Result<Json> answer = SendRequest(job, "GET", "/v1/ranks");
  if (!answer.ok() || !HasText(answer.value(), "alone")) return answer;
  const std::string run = RunOf(job);
  std::vector<Json> answers{answer.value()};
  for (const control_socket::FoundJob& other : AllJobs()) {
    if (other.path == job.path || run.empty() || RunOf(other) != run) continue;
    if (Result<Json> said = SendRequest(other, "GET", "/v1/ranks"); said.ok())
      answers.push_back(std::move(said).value());
  }
  return answers.size() == 1 ? answer : Result<Json>(CombineRanks(answers));
}

int Refuse(const DryRunArguments& arguments, const Status& refusal) {
  if (arguments.json)
    (void)PrintAtOnce(json::Dump(http::ErrorJson("invalid", refusal.message())) + "\n");
  else
    base::Print(stderr, "%s\n", PlacedLine(arguments.file, "error", refusal.place(), refusal.message()).c_str());
  return kExitInvalid;
}

bool IsWell(const Json& ranks) {
  const bool has_reasons = ranks.contains("reasons") && !ranks["reasons"].empty();
  return IsTrue(ranks, "complete") && !has_reasons;
}

}  // namespace

Json CombineRanks(const std::vector<Json>& answers) {
  Json combined = answers.front();
  std::vector<Json> ranks;
  std::set<int64_t> known;
  combined["reasons"] = Json::array();
  for (const Json& answer : answers) {
    for (const char* name : {"ranks", "reasons"}) {
      if (!answer.contains(name) || !answer[name].is_array()) continue;
      for (const Json& each : answer[name]) {
        if (!each.is_object() || !each.contains("rank") || !each["rank"].is_number_integer()) continue;
        if (name == std::string("reasons"))
          combined["reasons"].push_back(each);
        else if (known.insert(each["rank"].get<int64_t>()).second)
          ranks.push_back(each);
      }
    }
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const Json& a, const Json& b) { return a["rank"].get<int64_t>() < b["rank"].get<int64_t>(); });
  combined["complete"] = combined.contains("world_size") && combined["world_size"] == ranks.size();
  combined["alone"] = kOfThisHost;
  combined["ranks"] = ranks;
  return combined;
}

int RunRanks(const RanksArguments& arguments) {
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  for (;;) {
    const Result<Json> ranks = AskRanks(job.value());
    if (!ranks.ok()) return NoJob(ranks.status(), arguments.json);
    const std::string text = arguments.json ? json::Dump(ranks.value()) + "\n" : RanksText(ranks.value());
    const bool is_printed = arguments.watch && !arguments.json ? PrintPicture(text) : PrintAtOnce(text);
    if (!is_printed || !arguments.watch) return IsWell(ranks.value()) ? kExitDone : kExitDegraded;
    std::this_thread::sleep_for(kWatchRefresh);
  }
}

int RunDryRun(const DryRunArguments& arguments) {
  const Result<ConfigFile> file = ReadGivenConfig(arguments.file);
  if (!file.ok()) return Refuse(arguments, file.status());
  const Result<control_socket::FoundJob> job = FindJob(arguments.config);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  const Result<Json> trials = SendRequest(job.value(), "POST", "/v1/dry-run", file.value().text);
  if (!trials.ok()) return NoJob(trials.status(), arguments.json);
  (void)PrintAtOnce(arguments.json ? json::Dump(trials.value()) + "\n" : DryRunText(trials.value()));
  if (IsTrue(trials.value(), "agreed")) return kExitDone;
  if (trials.value().contains("error") && trials.value()["error"].is_object()) return kExitInvalid;
  const bool is_refused = trials.value().contains("reasons") && !trials.value()["reasons"].empty();
  return HasText(trials.value(), "alone") && !is_refused ? kExitDegraded : kExitNotAgreed;
}

}  // namespace stepwatch::cli
