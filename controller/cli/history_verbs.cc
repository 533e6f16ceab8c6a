#include "controller/cli/history_verbs.h"

#include <memory>

#include "controller/cli/edit_verbs.h"
#include "controller/cli/history_commands.h"

namespace stepwatch::cli {
namespace {

const char kWhere[] = "a run's directory, its stepwatch_history.jsonl, or the output base with all runs";

void AddHistory(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App* verb = app->add_subcommand("history", "List what became of each edit of a run, and of each plan");
  verb->add_option("DIR", arguments->path, kWhere)->required();
  verb->add_flag("--json", arguments->json, "one JSON object a line, as in the file");
  verb->footer(
      "Example: stepwatch history monitor_output\n"
      "Exit codes: 0 done, 2 no history there, 5 part of it cannot be read.");
  verb->callback([=] { *exit_code = RunHistory(*arguments); });
}

void AddShow(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App* verb = app->add_subcommand("show", "Print the config that a plan came from, byte for byte");
  verb->add_option("PLAN", arguments->plan_id, "its number")->required();
  verb->add_option("DIR", arguments->path, kWhere)->required();
  verb->add_flag("--json", arguments->json, "one JSON object with the text");
  verb->footer(
      "Of several runs the one that applied such a plan last.\n"
      "Example: stepwatch show 2 monitor_output > config_of_plan_2.json\n"
      "Exit codes: 0 done, 2 no such plan.");
  verb->callback([=] { *exit_code = RunShow(*arguments); });
}

void AddRollback(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RollbackArguments>();
  CLI::App* verb = app->add_subcommand("rollback", "Put the config of an earlier plan back in place");
  verb->add_option("PLAN", arguments->plan_id,
                   "its number (default: the last one with another config than the one that ran last)");
  verb->add_option("--config", arguments->config, "the config.json of the job")->required();
  verb->add_option("--history", arguments->history,
                   std::string(kWhere) + " (default: MONITOR_OUTPUT_DIR, else ./monitor_output)");
  AddIfMatch(verb, &arguments->if_match);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(
      "The bytes go into the config as `stepwatch apply` puts them there; a running job takes them up as a new plan.\n"
      "Example: stepwatch rollback --config config.json\n"
      "Exit codes: 0 written, 2 no such plan, 3 conflict, 5 the config cannot be written, 7 no change.");
  verb->callback([=] { *exit_code = RunRollback(*arguments); });
}

}  // namespace

void AddHistoryVerbs(CLI::App* app, int* exit_code) {
  AddHistory(app, exit_code);
  AddShow(app, exit_code);
  AddRollback(app, exit_code);
}

}  // namespace stepwatch::cli
