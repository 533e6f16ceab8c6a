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
  return text.size() == 64 && is_hex
             ? ""
             : "invalid SHA-256; expected 64 hexadecimal digits, as `stepwatch validate --json` prints them";
}

constexpr const char* kTarget =
    "a config.json, or a job: a name from `stepwatch ps`, a pid, a socket or the prefix of a run id (default: the "
    "only job)";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 invalid config, 3 conflict, 4 refused or superseded, 5 the file cannot be written, or\n"
    "timeout, 6 no such job, 7 no change.";

void AddIfMatch(CLI::App* verb, std::string* if_match) {
  verb->add_option("--if-match", *if_match, "write only if the SHA-256 of the current config is this; otherwise exit 3")
      ->check(CheckSha256);
}

CLI::Option* AddWait(CLI::App* verb, WaitArguments* wait, const std::vector<std::string>& goals, const char* what) {
  CLI::Option* goal = verb->add_option("--wait", wait->goal, what)->check(CLI::IsMember(goals));
  verb->add_option("--timeout", wait->timeout, "seconds to wait before exit 5 (default: no limit)")
      ->check(CLI::PositiveNumber);
  return goal;
}

// Of --wait, or of what stands for it.
void CheckWait(const WaitArguments& wait) {
  if (wait.timeout > 0 && wait.goal.empty()) throw CLI::RequiresError("--timeout", "--wait");
}

void AddBegin(CLI::App* verb, WaitArguments* wait) {
  (void)AddWait(
      verb, wait, {"applied", "drained"},
      "wait until the rows of the first collected step are written (applied), or all rows of the plan (drained)");
}

void AddStart(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* verb =
      app->add_subcommand("start", "Set \"dynamic_on\" to true in a config: the job that watches it starts to collect");
  verb->add_option("TARGET", arguments->target, kTarget);
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--json", arguments->json, "print one JSON object instead of a line");
  verb->footer(std::string("Only the value changes; comments and formatting stay. A config without the key is not "
                           "changed.\nExamples:\n  stepwatch start config.json\n  stepwatch start --wait applied\n") +
               kExitCodes);
  verb->callback([=] {
    CheckWait(arguments->wait);
    *exit_code = RunStart(*arguments);
  });
}

void AddStop(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* verb = app->add_subcommand(
      "stop", "Set \"dynamic_on\" to false in a config: the job that watches it stops at its next step");
  verb->add_option("TARGET", arguments->target, kTarget);
  AddIfMatch(verb, &arguments->if_match);
  CLI::Option* wait =
      AddWait(verb, &arguments->wait, {"stopped", "drained"},
              "wait until the plan is no longer active (stopped), or until all its rows are written as well (drained)");
  verb->add_flag_callback(
          "--now", [=] { arguments->wait.goal = "stopped"; },
          "short for --wait stopped. With or without it the plan ends at the next step, or the next step that "
          "all ranks agree on, and no row is dropped")
      ->excludes(wait);
  verb->add_flag("--json", arguments->json, "print one JSON object instead of a line");
  verb->footer(
      std::string("Only the value changes; comments and formatting stay. A config without the key is not "
                  "changed.\nExamples:\n  stepwatch stop config.json\n  stepwatch stop --now --timeout 60\n  stepwatch "
                  "stop --wait drained\n") +
      kExitCodes);
  verb->callback([=] {
    CheckWait(arguments->wait);
    *exit_code = RunStop(*arguments);
  });
}

void AddApply(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ApplyArguments>();
  CLI::App* verb = app->add_subcommand("apply", "Replace the config that a job watches");
  verb->add_option("FILE", arguments->file, "the new config; - reads standard input")->required();
  verb->add_option("--config", arguments->config, std::string(kTarget) + "; a missing file is created");
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--volatile", arguments->is_volatile,
                 "apply FILE without writing the config file; it holds until the file changes");
  verb->add_option(
          "--at-step", arguments->at_step,
          "apply FILE at this step on all ranks; a step that has passed selects the next one. The current plan runs "
          "until then, and a newer edit replaces FILE")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  const auto dry_run = std::make_shared<std::string>();
  verb->add_flag(
          "--dry-run", *dry_run,
          "check whether the job would accept FILE, without changing anything. --dry-run=ranks: every rank of the "
          "job compiles the plan for its own model and discards it; reports the ranks that would refuse it")
      ->check(CLI::IsMember({"true", "ranks"}));
  verb->add_flag("--json", arguments->json, "print one JSON object instead of a line");
  verb->footer(
      std::string("FILE is checked first, as `stepwatch validate` does. A concurrent edit is never lost.\n"
                  "Examples:\n  stepwatch apply gradients.json --config config.json\n"
                  "  stepwatch apply gradients.json --wait drained\n"
                  "  stepwatch apply gradients.json --at-step 20000\n"
                  "  jq '.collect_times = 5' gradients.json | stepwatch apply -\n"
                  "  stepwatch apply gradients.json --config config.json --dry-run=ranks\n") +
      kExitCodes +
      "\nWith --dry-run=ranks: 0 all ranks would accept it, 2 all would refuse it, 4 some would refuse it or did not\n"
      "answer, 5 only one rank could be asked, 6 no job runs.");
  verb->callback([=] {
    CheckWait(arguments->wait);
    arguments->dry_run = !dry_run->empty();
    *exit_code =
        *dry_run == "ranks" ? RunDryRun({arguments->file, arguments->config, arguments->json}) : RunApply(*arguments);
  });
}

void AddRollback(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RollbackArguments>();
  CLI::App* verb = app->add_subcommand("rollback", "Restore the config of an earlier plan");
  verb->add_option("PLAN", arguments->plan_id,
                   "number of the plan (default: the latest plan whose config differs from that of the last one)");
  verb->add_option("--config", arguments->config, kTarget);
  verb->add_option("--history", arguments->history,
                   "directory of a run, its stepwatch_history.jsonl, or the output base directory (default: that of "
                   "the job, else MONITOR_OUTPUT_DIR, else ./monitor_output)");
  AddIfMatch(verb, &arguments->if_match);
  AddBegin(verb, &arguments->wait);
  verb->add_flag("--json", arguments->json, "print one JSON object instead of a line");
  verb->footer(std::string("The text is written as `stepwatch apply` writes it; a running job applies it as a new "
                           "plan.\nExample: stepwatch rollback --config config.json\n") +
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
