#include "controller/cli/history_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "controller/cli/edit_commands.h"
#include "controller/cli/exit_code.h"
#include "src/base/text.h"
#include "src/output/history_file.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {

using Json = nlohmann::ordered_json;
using output::FoundHistory;
using output::HistoryLine;

void PrintObject(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

int Fail(const Status& status, bool json) {
  if (json)
    PrintObject({{"version", 1}, {"error", {{"code", "invalid"}, {"message", status.message()}}}});
  else
    std::fprintf(stderr, "stepwatch: error: %s\n", base::Printable(status.message(), 1000).c_str());
  return kExitInvalid;
}

bool TellNotes(const std::vector<FoundHistory>& runs) {
  bool any = false;
  for (const FoundHistory& run : runs)
    for (const std::string& note : run.history.notes) {
      any = true;
      std::fprintf(stderr, "note: %s\n", base::Printable(note, 1000).c_str());
    }
  return any;
}

std::string Short(const std::string& sha256) {
  return sha256.empty() ? "-" : sha256.substr(0, 8);
}

std::string Details(const HistoryLine& line) {
  std::string text;
  if (line.step >= 0) text += fmt::format("  {} step {}", line.outcome == "applied" ? "first" : "last", line.step);
  if (line.collected >= 0) text += fmt::format("  collected {}", line.collected);
  if (line.ledger) text += fmt::format("  rows {} of {}", line.ledger->written, line.ledger->produced);
  if (line.place.line > 0) text += fmt::format("  line {}, column {}", line.place.line, line.place.column);
  if (!line.place.key.empty()) text += "  \"" + line.place.key + "\"";
  if (!line.message.empty()) text += "  " + line.message;
  return text;
}

void PrintLine(const HistoryLine& line) {
  const std::string plan = line.plan_id == 0 ? "-" : "plan " + std::to_string(line.plan_id);
  const std::string who = line.owner_uid < 0 ? "" : fmt::format("  uid {} {}", line.owner_uid, line.modified);
  std::printf("%s\n", base::Printable(fmt::format("{}  {:<8} {:<10} {} <- {}{}{}", line.time, plan, line.outcome,
                                                  Short(line.sha256), Short(line.old_sha256), who, Details(line)),
                                      2000)
                          .c_str());
}

void PrintRun(const FoundHistory& run) {
  std::printf("%s", base::Printable(run.directory, 1000).c_str());
  if (!run.history.lines.empty())
    std::printf("  config %s", base::Printable(run.history.lines.back().config_path, 1000).c_str());
  std::printf("\n");
  for (const HistoryLine& line : run.history.lines) PrintLine(line);
}

// The line as it stands in the file, and where that lies.
void PrintJsonLine(const FoundHistory& run, const HistoryLine& line) {
  Json json = Json::parse(output::HistoryText(line), nullptr, false);
  json["directory"] = run.directory;
  PrintObject(json);
}

// A config that was applied, and the run whose history keeps it.
struct AppliedConfig {
  std::string directory;
  HistoryLine line;
};

// Oldest first.
std::vector<AppliedConfig> AppliedConfigs(const std::vector<FoundHistory>& runs,
                                          const std::function<bool(const HistoryLine&)>& is_wanted) {
  std::vector<AppliedConfig> all;
  for (const FoundHistory& run : runs)
    for (const HistoryLine& line : run.history.lines)
      if (line.outcome == "applied" && is_wanted(line)) all.push_back({run.directory, line});
  std::stable_sort(all.begin(), all.end(),
                   [](const AppliedConfig& a, const AppliedConfig& b) { return a.line.time < b.line.time; });
  return all;
}

std::optional<AppliedConfig> LastOf(const std::vector<AppliedConfig>& all,
                                    const std::function<bool(const HistoryLine&)>& is_wanted) {
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const auto& each) { return is_wanted(each.line); });
  return found == all.rend() ? std::nullopt : std::optional(*found);
}

Result<AppliedConfig> FindPlan(const std::vector<AppliedConfig>& all, uint32_t plan_id, const std::string& where) {
  const auto found = LastOf(all, [plan_id](const HistoryLine& line) { return line.plan_id == plan_id; });
  if (found) return *found;
  return Status(StatusCode::kNotFound,
                fmt::format("no plan {} was applied in what {} tells; `stepwatch history {}` lists the plans", plan_id,
                            where, where));
}

// What is wanted is another config, and not the same one begun once more.
Result<AppliedConfig> FindBefore(const std::vector<AppliedConfig>& all, const std::string& config) {
  if (!all.empty()) {
    const std::string last = all.back().line.sha256;
    const auto found = LastOf(all, [&last](const HistoryLine& line) { return line.sha256 != last; });
    if (found) return *found;
  }
  return Status(StatusCode::kNotFound, fmt::format("{} has {}: there is none to go back to", config,
                                                   all.empty() ? "no history here, or --history leads elsewhere"
                                                               : "run with one config only"));
}

// Both names lead to one file, or are the same.
bool IsSamePath(const std::string& a, const std::string& b) {
  std::string real_a, real_b;
  base::FileSystem& files = base::FileSystem::Real();
  if (files.RealPath(a.c_str(), &real_a) != 0 || files.RealPath(b.c_str(), &real_b) != 0) return a == b;
  return real_a == real_b;
}

}  // namespace

int RunHistory(const HistoryArguments& arguments) {
  const auto runs = output::FindHistories(arguments.path);
  if (!runs.ok()) return Fail(runs.status(), arguments.json);
  for (const FoundHistory& run : runs.value()) {
    if (!arguments.json) PrintRun(run);
    if (!arguments.json) continue;
    for (const HistoryLine& line : run.history.lines) PrintJsonLine(run, line);
  }
  return TellNotes(runs.value()) ? kExitDegraded : kExitDone;
}

int RunShow(const ShowArguments& arguments) {
  const auto runs = output::FindHistories(arguments.path);
  if (!runs.ok()) return Fail(runs.status(), arguments.json);
  const auto all = AppliedConfigs(runs.value(), [](const HistoryLine&) { return true; });
  const Result<AppliedConfig> found = FindPlan(all, arguments.plan_id, arguments.path);
  if (!found.ok()) return Fail(found.status(), arguments.json);
  const Result<std::string> text = output::KeptConfig(found.value().directory, found.value().line.sha256);
  if (!text.ok()) return Fail(text.status(), arguments.json);
  if (arguments.json)
    PrintObject({{"version", 1},
                 {"directory", found.value().directory},
                 {"plan_id", found.value().line.plan_id},
                 {"sha256", found.value().line.sha256},
                 {"text", text.value()}});
  else
    std::fwrite(text.value().data(), 1, text.value().size(), stdout);
  return kExitDone;
}

int RunRollback(const RollbackArguments& arguments) {
  const std::string where = output::OutputBase(arguments.history);
  const auto runs = output::FindHistories(where);
  if (!runs.ok()) return Fail(runs.status(), arguments.json);
  const auto all = AppliedConfigs(
      runs.value(), [&](const HistoryLine& line) { return IsSamePath(line.config_path, arguments.config); });
  const Result<AppliedConfig> found =
      arguments.plan_id != 0 ? FindPlan(all, arguments.plan_id, where) : FindBefore(all, arguments.config);
  if (!found.ok()) return Fail(found.status(), arguments.json);
  const Result<std::string> text = output::KeptConfig(found.value().directory, found.value().line.sha256);
  if (!text.ok()) return Fail(text.status(), arguments.json);
  return ApplyText({fmt::format("the config of plan {} in {}", found.value().line.plan_id, found.value().directory),
                    text.value(), arguments.config, arguments.if_match, arguments.json});
}

}  // namespace stepwatch::cli
