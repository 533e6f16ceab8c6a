#include "controller/cli/history_verbs.h"

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <memory>

#include "controller/cli/history_commands.h"

namespace stepwatch::cli {
namespace {

const char kWhere[] =
    "a running job, a run's directory, its stepwatch_history.jsonl, or the output base with all runs (default: the "
    "only "
    "job; without one MONITOR_OUTPUT_DIR, else ./monitor_output)";

void AddHistory(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App* verb = app->add_subcommand("history", "List what became of each edit of a run, and of each plan");
  verb->add_option("WHERE", arguments->path, kWhere);
  verb->add_flag("--json", arguments->json, "one JSON object a line, as in the file");
  verb->footer(
      "Examples:\n  stepwatch history\n  stepwatch history monitor_output\n"
      "Exit codes: 0 done, 2 no history there, 5 part of it cannot be read.");
  verb->callback([=] { *exit_code = RunHistory(*arguments); });
}

void AddShow(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App* verb = app->add_subcommand("show", "Print the config that a plan came from, byte for byte");
  verb->add_option("PLAN", arguments->plan_id, "its number")->required();
  verb->add_option("WHERE", arguments->path, kWhere);
  verb->add_flag("--json", arguments->json, "one JSON object with the text");
  verb->footer(
      "Of several runs the one that applied such a plan last.\n"
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
