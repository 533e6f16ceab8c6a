#include "controller/cli/history_commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/exit_code.h"
#include "controller/cli/history_place.h"
#include "controller/cli/print_answer.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/output/applied_configs.h"
#include "src/output/history_file.h"

namespace stepwatch::cli {
namespace {

using Json = nlohmann::ordered_json;
using output::FoundHistory;
using output::HistoryLine;

bool TellNotes(const std::vector<FoundHistory>& runs) {
  bool any = false;
  for (const FoundHistory& run : runs)
    for (const std::string& note : run.history.notes) {
      any = true;
      base::Print(stderr, "note: %s\n", base::Printable(note, 1000).c_str());
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
  std::string who = line.owner_uid < 0 ? "" : fmt::format("  uid {} {}", line.owner_uid, line.modified);
  if (line.peer) who += "  through the control socket: " + output::PeerText(*line.peer);
  base::Print(stdout, "%s\n",
              base::Printable(fmt::format("{}  {:<8} {:<10} {} <- {}{}{}", line.time, plan, line.outcome,
                                          Short(line.sha256), Short(line.old_sha256), who, Details(line)),
                              2000)
                  .c_str());
}

void PrintRun(const FoundHistory& run) {
  base::Print(stdout, "%s", base::Printable(run.directory, 1000).c_str());
  if (!run.history.lines.empty())
    base::Print(stdout, "  config %s", base::Printable(run.history.lines.back().config_path, 1000).c_str());
  base::Print(stdout, "\n");
  for (const HistoryLine& line : run.history.lines) PrintLine(line);
}

// The line as it stands in the file, and where that lies.
void PrintJsonLine(const FoundHistory& run, const HistoryLine& line) {
  Json json = json::Parse(output::HistoryText(line)).value();
  json["directory"] = run.directory;
  PrintObject(json);
}

}  // namespace

int RunHistory(const HistoryArguments& arguments) {
  const Result<HistoryPlace> place = FindHistoryPlace(arguments.path);
  if (!place.ok()) return FailInvalid(place.status(), arguments.json);
  for (const FoundHistory& run : place.value().runs) {
    if (!arguments.json) PrintRun(run);
    if (!arguments.json) continue;
    for (const HistoryLine& line : run.history.lines) PrintJsonLine(run, line);
  }
  return TellNotes(place.value().runs) ? kExitDegraded : kExitDone;
}

int RunShow(const ShowArguments& arguments) {
  const Result<HistoryPlace> place = FindHistoryPlace(arguments.path);
  if (!place.ok()) return FailInvalid(place.status(), arguments.json);
  const auto all = output::AppliedConfigs(place.value().runs, [](const HistoryLine&) { return true; });
  const Result<output::AppliedConfig> found = output::FindPlan(all, arguments.plan_id, place.value().path);
  if (!found.ok()) return FailInvalid(found.status(), arguments.json);
  const Result<std::string> text = output::KeptConfig(found.value().directory, found.value().line.sha256);
  if (!text.ok()) return FailInvalid(text.status(), arguments.json);
  if (arguments.json)
    PrintObject({{"version", 1},
                 {"directory", found.value().directory},
                 {"plan_id", found.value().line.plan_id},
                 {"sha256", found.value().line.sha256},
                 {"text", text.value()}});
  else
    PrintBytes(text.value());
  return kExitDone;
}

}  // namespace stepwatch::cli
