// `stepwatch history` and `show`: the edits of a run with their outcomes and their bytes.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/verbs.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/output/applied_configs.h"
#include "src/output/history_file.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {

struct HistoryArguments {
  std::string path;  // as accepted by FindHistoryPlace
  bool json = false;
};

struct ShowArguments {
  uint32_t plan_id = 0;
  std::string path;
  bool json = false;
};

struct HistoryPlace {
  std::string path;
  std::vector<output::FoundHistory> runs;
};

Result<HistoryPlace> At(const std::string& path) {
  auto runs = output::FindHistories(path);
  if (!runs.ok()) return runs.status();
  return HistoryPlace{path, std::move(runs).value()};
}

Result<HistoryPlace> OfJob(const control_socket::FoundJob& job) {
  const Json status = StatusOf(job);
  if (status.empty())
    return Status(StatusCode::kUnavailable, job.name + " does not respond; name the directory of its run");
  if (const std::string directory = RawText(status, "output_dir"); !directory.empty()) return At(directory);
  return Status(StatusCode::kNotFound, job.name +
                                           " has no history yet: none of its plans has written rows, or its format "
                                           "writes no files");
}

// `word`: a history, the directory of a run or of several, or a JOB argument of FindJob, for its run. Empty: the only
// running job; without a job the output base, MONITOR_OUTPUT_DIR or ./monitor_output.
Result<HistoryPlace> FindHistoryPlace(const std::string& word) {
  if (word.empty()) {
    if (AllJobs().empty()) return At(output::OutputBase(""));
    const Result<control_socket::FoundJob> only = FindJob("");
    return only.ok() ? OfJob(only.value()) : Result<HistoryPlace>(only.status());
  }
  Result<HistoryPlace> place = At(word);
  if (place.ok()) return place;
  const Result<control_socket::FoundJob> job = FindJob(word);
  return job.ok() ? OfJob(job.value()) : place;
}

using output::FoundHistory;
using output::HistoryLine;

bool PrintNotes(const std::vector<FoundHistory>& runs) {
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

// The line as in the file, and the directory of the file.
void PrintJsonLine(const FoundHistory& run, const HistoryLine& line) {
  Json json = json::Parse(output::HistoryText(line)).value();
  json["directory"] = run.directory;
  PrintObject(json);
}

// 0: done; 2: no such history or plan, or it cannot be read; 5: part of it is left out.
int RunHistory(const HistoryArguments& arguments) {
  const Result<HistoryPlace> place = FindHistoryPlace(arguments.path);
  if (!place.ok()) return FailInvalid(place.status(), arguments.json);
  for (const FoundHistory& run : place.value().runs) {
    if (!arguments.json) PrintRun(run);
    if (!arguments.json) continue;
    for (const HistoryLine& line : run.history.lines) PrintJsonLine(run, line);
  }
  return PrintNotes(place.value().runs) ? kExitDegraded : kExitDone;
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

const char kWhere[] =
    "a running job, the directory of a run, its stepwatch_history.jsonl, or the output base directory (default: the "
    "only job; without a job MONITOR_OUTPUT_DIR, else ./monitor_output)";

void AddHistory(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App* verb = app->add_subcommand("history", "List the edits and plans of a run with their outcomes");
  verb->add_option("WHERE", arguments->path, kWhere);
  verb->add_flag("--json", arguments->json, "one JSON object per line, as in the file");
  verb->footer(
      "Examples:\n  stepwatch history\n  stepwatch history monitor_output\n"
      "Exit codes: 0 done, 2 no history there, 5 part of it is unreadable.");
  verb->callback([=] { *exit_code = RunHistory(*arguments); });
}

void AddShow(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App* verb = app->add_subcommand("show", "Print the config that a plan came from, byte for byte");
  verb->add_option("PLAN", arguments->plan_id, "number of the plan")->required();
  verb->add_option("WHERE", arguments->path, kWhere);
  verb->add_flag("--json", arguments->json, "one JSON object with the text");
  verb->footer(
      "If several runs have this plan, the latest is shown.\n"
      "Example: stepwatch show 2 monitor_output > config_of_plan_2.json\n"
      "Exit codes: 0 done, 2 no such plan.");
  verb->callback([=] { *exit_code = RunShow(*arguments); });
}

}  // namespace

void AddHistoryVerbs(CLI::App* app, int* exit_code) {
  AddHistory(app, exit_code);
  AddShow(app, exit_code);
}

}  // namespace stepwatch::cli
