#include "controller/cli/edit_verbs.h"

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <string>
#include <vector>

#include "controller/cli/edit_commands.h"
#include "controller/cli/ranks_commands.h"

namespace stepwatch::cli {
namespace {

// As `validate --json` prints it.
std::string CheckSha256(const std::string& text) {
  const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return text.size() == 64 && is_hex ? "" : "is not a SHA-256 of 64 digits, as `stepwatch validate --json` prints it";
}

constexpr const char* kTarget =
    "a config.json, or a job as `stepwatch ps` names it, a pid, a socket or the beginning of a run id (default: the "
    "only job)";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 unusable config, 3 conflict, 4 refused or superseded, 5 the file cannot be written, or not "
    "in\n"
    "time, 6 no such job, 7 no change.";

void AddIfMatch(CLI::App* verb, std::string* if_match) {
  verb->add_option("--if-match", *if_match, "only if the config holds the bytes with this SHA-256; otherwise exit 3")
      ->check(CheckSha256);
}

CLI::Option* AddWait(CLI::App* verb, WaitArguments* wait, const std::vector<std::string>& goals, const char* what) {
  CLI::Option* goal = verb->add_option("--wait", wait->goal, what)->check(CLI::IsMember(goals));
  verb->add_option("--timeout", wait->timeout, "seconds to wait; then exit 5 (default: for ever)")
      ->check(CLI::PositiveNumber);
  return goal;
}

// Of --wait, or of what stands for it.
void CheckWait(const WaitArguments& wait) {
  if (wait.timeout > 0 && wait.goal.empty()) throw CLI::RequiresError("--timeout", "--wait");
}

void AddBegin(CLI::App* verb, WaitArguments* wait) {
  (void)AddWait(verb, wait, {"applied", "drained"},
                "until rows of the first collected step are written, or all rows of the plan");
}

void AddStart(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* verb =
      app->add_subcommand("start", "Make \"dynamic_on\" true in a config: a job that watches it begins to collect");
  verb->add_option("TARGET", arguments->target, kTarget);
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(std::string("That word alone changes; comments and formatting stay. A config without the key is left "
                           "alone.\nExamples:\n  stepwatch start config.json\n  stepwatch start --wait applied\n") +
               kExitCodes);
  verb->callback([=] {
    CheckWait(arguments->wait);
    *exit_code = RunStart(*arguments);
  });
}

void AddStop(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* verb = app->add_subcommand(
      "stop", "Make \"dynamic_on\" false in a config: a job that watches it stops at its next step");
  verb->add_option("TARGET", arguments->target, kTarget);
  AddIfMatch(verb, &arguments->if_match);
  CLI::Option* wait = AddWait(verb, &arguments->wait, {"stopped", "drained"},
                              "until the plan is out of force, or until all its rows are written as well");
  verb->add_flag_callback(
          "--now", [=] { arguments->wait.goal = "stopped"; },
          "answer when the plan is out of force: the same as --wait stopped. It ends at the next step in any "
          "case, of ranks at the nearest on which they agree, and no row is dropped")
      ->excludes(wait);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(
      std::string("That word alone changes; comments and formatting stay. A config without the key is left "
                  "alone.\nExamples:\n  stepwatch stop config.json\n  stepwatch stop --now --timeout 60\n  stepwatch "
                  "stop --wait drained\n") +
      kExitCodes);
  verb->callback([=] {
    CheckWait(arguments->wait);
    *exit_code = RunStop(*arguments);
  });
}

void AddApply(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ApplyArguments>();
  CLI::App* verb = app->add_subcommand("apply", "Put a config in the place of the one that a job watches");
  verb->add_option("FILE", arguments->file, "the new config; - is standard input")->required();
  verb->add_option("--config", arguments->config, std::string(kTarget) + "; a file that is not there is created");
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--volatile", arguments->is_volatile,
                 "leave the config alone, which cannot be written perhaps: the job runs FILE until the config changes");
  verb->add_option("--at-step", arguments->at_step,
                   "the job begins with FILE at this step, on all its ranks; not later than the running step means "
                   "the next. Until then what runs goes on, and a newer edit takes FILE's place")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  const auto dry_run = std::make_shared<std::string>();
  verb->add_flag("--dry-run", *dry_run,
                 "only say whether the job would take FILE; nothing is changed. --dry-run=ranks: has every rank of the "
                 "job build the plan for its own model and throw it away, and says which would refuse it")
      ->check(CLI::IsMember({"true", "ranks"}));
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(
      std::string(
          "FILE is checked first, as `stepwatch validate` does. An edit saved at the same moment is never lost.\n"
          "Examples:\n  stepwatch apply gradients.json --config config.json\n"
          "  stepwatch apply gradients.json --wait drained\n"
          "  stepwatch apply gradients.json --at-step 20000\n"
          "  jq '.collect_times = 5' gradients.json | stepwatch apply -\n"
          "  stepwatch apply gradients.json --config config.json --dry-run=ranks\n") +
      kExitCodes +
      "\nOf --dry-run=ranks: 0 every rank would take it, 2 none would, 4 not all, or not all were heard, 5 one alone\n"
      "was asked, 6 no job runs.");
  verb->callback([=] {
    CheckWait(arguments->wait);
    arguments->dry_run = !dry_run->empty();
    *exit_code =
        *dry_run == "ranks" ? RunDryRun({arguments->file, arguments->config, arguments->json}) : RunApply(*arguments);
  });
}

void AddRollback(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RollbackArguments>();
  CLI::App* verb = app->add_subcommand("rollback", "Put the config of an earlier plan back in place");
  verb->add_option("PLAN", arguments->plan_id,
                   "its number (default: the last one with another config than the one that ran last)");
  verb->add_option("--config", arguments->config, kTarget);
  verb->add_option("--history", arguments->history,
                   "a run's directory, its stepwatch_history.jsonl, or the output base with all runs (default: where "
                   "the job writes, else MONITOR_OUTPUT_DIR, else ./monitor_output)");
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(
      std::string("The bytes go into the config as `stepwatch apply` puts them there; a running job takes them "
                  "up as a new plan.\nExample: stepwatch rollback --config config.json\n") +
      kExitCodes);
  verb->callback([=] {
    CheckWait(arguments->wait);
    *exit_code = RunRollback(*arguments);
  });
}

}  // namespace

void AddEditVerbs(CLI::App* app, int* exit_code) {
  AddStart(app, exit_code);
  AddStop(app, exit_code);
  AddApply(app, exit_code);
  AddRollback(app, exit_code);
}

}  // namespace stepwatch::cli
