#include "controller/cli/history_verbs.h"

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <memory>

#include "controller/cli/history_commands.h"

namespace stepwatch::cli {
namespace {

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
