#include "controller/cli/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "controller/cli/config_file.h"
#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

// Further ranks that are missing, or refuse, are only counted.
constexpr size_t kShownMax = 8;

std::string PlanText(const Json& rank) {
  if (const std::string plan = OrDash(Whole(rank, "plan_id")); plan != "-") return plan;
  const std::string armed = OrDash(Whole(rank, "armed_plan_id"));
  if (armed == "-") return "-";
  const std::string at = OrDash(Whole(rank, "at_step"));
  return armed + (at == "-" ? " waits" : " at " + at);
}

std::string TroubleOf(const Json& rank) {
  for (const char* name : {"fault", "refusal"})
    if (const std::string why = Text(rank, name); !why.empty()) return why;
  return IsTrue(rank, "in_doubt") ? "in doubt" : "";
}

std::string RanksHeading(const Json& answer) {
  const Json& ranks = Member(answer, "ranks");
  std::string text = fmt::format("run {}, {} of {} ranks", Text(answer, "run_id").substr(0, 8), ranks.size(),
                                 OrDash(Whole(answer, "world_size")));
  if (const std::string alone = Text(answer, "alone"); !alone.empty()) text += ": " + Coloured(alone, Colour::kYellow);
  return text + "\n";
}

// "rank 3: why" for the first ranks.
std::string RankLines(const Json& list, const char* name) {
  std::string text;
  size_t shown = 0;
  for (const Json& each : list) {
    if (shown == kShownMax) return text + fmt::format("and {} more ranks\n", list.size() - shown);
    text += fmt::format("rank {}: {}\n", OrDash(Whole(each, "rank")), Coloured(Text(each, name), Colour::kRed));
    ++shown;
  }
  return text;
}

constexpr std::chrono::seconds kRanksAnswerTime{10};
constexpr const char* kOfThisHost = "the ranks share no store; these are the ranks of this run on this host";

Status UnusableAnswer(const std::string& path, const http::Reply& reply) {
  std::string why = "returned status " + std::to_string(reply.status);
  const Result<Json> json = json::Parse(reply.body);
  if (json.ok() && Member(Part(json.value(), "error"), "message").is_string())
    why += ": " + Text(Part(json.value(), "error"), "message");
  return Status(StatusCode::kUnavailable, path + " " + why);
}

Result<Json> SendRequest(const control_socket::FoundJob& job, const std::string& method, const std::string& target,
                         const std::string& body = "") {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Ask(method, target, body, kRanksAnswerTime);
  if (!reply.ok()) return Status(StatusCode::kUnavailable, reply.status().message());
  Result<Json> json = json::Parse(reply.value().body);
  if (reply.value().status != 200 || !json.ok() || !json.value().is_object())
    return UnusableAnswer(job.path, reply.value());
  return json;
}

Result<Json> AskRanks(const control_socket::FoundJob& job) {
  Result<Json> answer = SendRequest(job, "GET", "/v1/ranks");
  if (!answer.ok() || !Member(answer.value(), "alone").is_string()) return answer;
  const std::string run = RunRankOf(job).run_id;
  std::vector<Json> answers{answer.value()};
  for (const control_socket::FoundJob& other : AllJobs()) {
    if (other.path == job.path || run.empty() || RunRankOf(other).run_id != run) continue;
    if (Result<Json> reply = SendRequest(other, "GET", "/v1/ranks"); reply.ok())
      answers.push_back(std::move(reply).value());
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
  return IsTrue(ranks, "complete") && Member(ranks, "reasons").empty();
}

}  // namespace

std::string RanksText(const Json& answer) {
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"RANK", "STATE", "STEP", "PLAN", "COLLECTED", "CONFIG", "LAST REPORT", "TROUBLE"})};
  for (const Json& rank : List(answer, "ranks"))
    rows.push_back({{OrDash(Whole(rank, "rank"))},
                    {Text(rank, "state") + (IsTrue(rank, "paused") ? ", paused" : "")},
                    {OrDash(Whole(rank, "step"))},
                    {PlanText(rank)},
                    {OrDash(Whole(rank, "collected"))},
                    {Text(rank, "config_sha256").empty() ? "-" : Text(rank, "config_sha256").substr(0, 12)},
                    {OrDash(Whole(rank, "heard_ms")) + " ms"},
                    {TroubleOf(rank), Colour::kRed}});
  return RanksHeading(answer) + TableText(rows) + RankLines(List(answer, "missing"), "reason");
}

std::string DryRunText(const Json& answer) {
  const std::string hash = Text(answer, "sha256").substr(0, 12);
  if (const Json& error = Member(answer, "error"); error.is_object()) {
    const std::string line = OrDash(Whole(error, "line"));
    return fmt::format("{} refused{}: {}\n", hash,
                       line == "-" ? "" : fmt::format(" at line {}, column {}", line, OrDash(Whole(error, "column"))),
                       Coloured(Text(error, "message"), Colour::kRed));
  }
  std::string text = fmt::format("{} of {} ranks would accept {}; the config is unchanged\n",
                                 OrDash(Whole(answer, "accepted")), OrDash(Whole(answer, "world_size")), hash);
  if (const std::string alone = Text(answer, "alone"); !alone.empty()) text += Coloured(alone, Colour::kYellow) + "\n";
  return text + RankLines(List(answer, "reasons"), "reason");
}

Json CombineRanks(const std::vector<Json>& answers) {
  Json combined = answers.front();
  std::vector<Json> ranks;
  std::set<int64_t> known;
  combined["reasons"] = Json::array();
  for (const Json& answer : answers) {
    for (const char* name : {"ranks", "reasons"}) {
      for (const Json& each : List(answer, name)) {
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
    const bool is_printed = arguments.watch && !arguments.json ? PrintScreen(text) : PrintAtOnce(text);
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
  if (Member(trials.value(), "error").is_object()) return kExitInvalid;
  const bool is_refused = !Member(trials.value(), "reasons").empty();
  return Member(trials.value(), "alone").is_string() && !is_refused ? kExitDegraded : kExitNotAgreed;
}

}  // namespace stepwatch::cli
