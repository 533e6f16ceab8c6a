// `stepwatch start`, `stop`, `apply` and `rollback` change a config file, whether or not a job runs. If a job watches
// the file, they go through its control socket and report what the job does with the change.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/cli/config_change.h"
#include "controller/cli/config_file.h"
#include "controller/cli/find_job.h"
#include "controller/cli/ranks.h"
#include "controller/cli/remote_edit.h"
#include "controller/cli/verbs.h"
#include "controller/control_socket/json_values.h"
#include "controller/watch/file_snapshot.h"
#include "src/base/print.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"
#include "src/output/applied_configs.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {
struct SwitchArguments {
  std::string target;    // a config file or a job; empty: the only job
  std::string if_match;  // empty: any content
  WaitArguments wait;
  bool json = false;
};

struct ApplyArguments {
  std::string file;
  std::string config;  // as SwitchArguments::target
  std::string if_match;
  WaitArguments wait;
  bool dry_run = false;
  bool is_volatile = false;        // the file stays: the job runs the text until the file changes
  bool returns = false;            // with is_volatile: until its window is complete
  std::optional<int64_t> at_step;  // the first step with the new config
  bool json = false;
};

struct RollbackArguments {
  uint32_t plan_id = 0;  // 0: the last one whose config differs from that of the last plan
  std::string config;    // as SwitchArguments::target
  std::string history;   // a history, or a directory with histories; empty: that of the job, or the output base
  std::string if_match;
  WaitArguments wait;
  bool json = false;
};

using Outcome = writeback::WriteBackOutcome;

// More saves than can happen while one value changes.
constexpr int kTriesMax = 20;

EditResult Conflict(const std::string& config, const std::string& if_match, const writeback::WriteBackResult& result) {
  if (if_match.empty()) return Failure(kExitConflict, "file", "conflict", result.message);
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(config);
  const std::string found = snapshot.kind == watch::SnapshotKind::kBytes ? snapshot.sha256 : "";
  EditResult outcome =
      Failure(kExitConflict, "file", "conflict",
              fmt::format("{} has SHA-256 {}, not {}; the file is unchanged", base::Printable(config, 200),
                          found.empty() ? "no config" : found, if_match));
  outcome.json["error"]["expected_sha256"] = if_match;
  outcome.json["error"]["found_sha256"] = found;
  return outcome;
}

EditResult Done(const std::string& config, const std::string& done, const writeback::WriteBackResult& result) {
  const bool is_written = result.outcome == Outcome::kWritten;
  EditResult outcome{is_written ? kExitDone : kExitNoChange,
                     {{"version", 1},
                      {"config", config},
                      {"outcome", is_written ? "written" : "unchanged"},
                      {"method", result.method},
                      {"replaced_sha256", result.found_sha256},
                      {"sha256", result.sha256},
                      {"via", "file"}},
                     base::Printable(config, 200)};
  outcome.line += " " + (is_written ? done : "already holds this config: no change");
  return outcome;
}

// The result of a change of the file.
EditResult ResultOf(const std::string& config, const std::string& if_match, const std::string& done,
                    const writeback::WriteBackResult& result) {
  switch (result.outcome) {
    case Outcome::kWritten:
    case Outcome::kUnchanged: return Done(config, done, result);
    case Outcome::kEdited: return Conflict(config, if_match, result);
    case Outcome::kRefused: return Failure(kExitInvalid, "file", "invalid", result.message);
    case Outcome::kImpossible: break;
  }
  return Failure(
      kExitDegraded, "file", "unwritable",
      result.message +
          ". Change it as its owner, or at its source (a ConfigMap, an image, a mount): a running job applies "
          "that as well");
}

// A config that no job accepts is not changed: the value alone would have no effect.
int SwitchFile(const std::string& config, const SwitchArguments& arguments, bool on) {
  const std::string done =
      fmt::format("now has \"dynamic_on\": {}; a job in dynamic mode applies it at its next step", on);
  ConfigChange change(config);
  EditResult outcome;
  for (int i = 1; i <= kTriesMax; ++i) {
    const Result<ConfigFile> file = ReadConfigFile(config);
    if (!file.ok()) return PrintResult(Unusable("file", config, file.status()), arguments.json);
    const std::string& expected = arguments.if_match.empty() ? file.value().sha256 : arguments.if_match;
    const writeback::WriteBackResult result =
        change.Make([&] { return writeback::SetDynamicOn(config, expected, on); });
    // A save came in between: the value changes in the saved text.
    if (result.outcome == Outcome::kEdited && arguments.if_match.empty() && i < kTriesMax) continue;
    outcome = ResultOf(config, arguments.if_match, done, result);
    break;
  }
  const int exit_code = PrintResult(outcome, arguments.json);
  change.AwaitDisplaced();
  return exit_code;
}

struct EditText {
  std::string name;  // for messages
  std::string text;
};

int ApplyToFile(const std::string& config, const std::string& if_match, const EditText& text, const std::string& done,
                bool json) {
  ConfigChange change(config);
  const writeback::WriteBackResult result =
      change.Make([&] { return writeback::ReplaceConfig(config, if_match, text.text); });
  const int exit_code = PrintResult(ResultOf(config, if_match, done, result), json);
  change.AwaitDisplaced();
  return exit_code;
}

// Edits through the control socket of the job. No value: no job accepts the edit, and the file must be written.
std::optional<int> GoThroughJob(const EditTarget& target, const RemoteEdit& edit, const WaitArguments& wait,
                                bool json) {
  std::optional<EditResult> result = target.job ? EditRunningJob(*target.job, edit) : std::nullopt;
  if (result) {
    WaitArguments arguments = wait;
    arguments.prints = !json;
    AwaitEdit(*target.job, arguments, &*result);
    return PrintResult(*result, json);
  }
  const std::string config = base::Printable(target.config, 200);
  if (!wait.goal.empty())
    return PrintResult(
        Failure(kExitUnreachable, "file", "no_job",
                fmt::format("no job in dynamic mode watches {}, so --wait is not possible; the file is unchanged",
                            config.empty() ? "a config" : config)),
        json);
  if (target.config.empty())
    return PrintResult(
        Failure(kExitUnreachable, "file", "no_job", "the job accepts no changes and does not report its config file"),
        json);
  return std::nullopt;
}

int NoTarget(const Status& status, bool json) {
  if (!json) return NoJob(status, false);
  const bool is_unclear = status.code() == StatusCode::kInvalid;
  return PrintResult(Failure(is_unclear ? kExitInvalid : kExitUnreachable, "file", is_unclear ? "invalid" : "no_job",
                             status.message()),
                     json);
}

int Switch(const SwitchArguments& arguments, bool on) {
  const Result<EditTarget> target = FindTarget(arguments.target);
  if (!target.ok()) return NoTarget(target.status(), arguments.json);
  const RemoteEdit edit{on ? "/v1/start" : "/v1/stop", "", arguments.if_match, target.value().config,
                        fmt::format("now has \"dynamic_on\": {}", on)};
  WaitArguments wait = arguments.wait;
  wait.is_stop = !on;
  if (const auto exit_code = GoThroughJob(target.value(), edit, wait, arguments.json)) return *exit_code;
  return SwitchFile(target.value().config, arguments, on);
}

// Prints the warnings about a text to standard error.
Status Check(const EditText& text) {
  const Result<config::ParsedConfig> parsed = config::ParseConfig(text.text);
  if (!parsed.ok()) return parsed.status();
  for (const config::Warning& warning : parsed.value().warnings)
    base::Print(stderr, "%s\n", PlacedLine(text.name, "warning", warning.place, warning.message).c_str());
  return Status();
}

std::string HoldsNow(const EditText& text) {
  return fmt::format("now holds {}, sha256 {}", base::Printable(text.name, 200), base::Sha256Hex(text.text));
}

std::string ApplyRoute(const ApplyArguments& arguments) {
  std::string query = arguments.is_volatile ? "volatile=1" : "";
  if (arguments.returns) query += "&returns=1";
  if (arguments.at_step) query += fmt::format("{}at_step={}", query.empty() ? "" : "&", *arguments.at_step);
  return query.empty() ? "/v1/apply" : "/v1/apply?" + query;
}

// Checks whether FILE is valid, and whether the job would accept it; changes nothing.
int DryRun(const EditTarget& target, const EditText& text, bool json) {
  std::optional<EditResult> result;
  if (target.job) result = ValidateInJob(*target.job, text.name, text.text);
  if (!result) {
    const Result<config::ParsedConfig> parsed = config::ParseConfig(text.text);
    result = EditResult{parsed.ok() ? kExitDone : kExitInvalid,
                        control_socket::ValidationJson(base::Sha256Hex(text.text), parsed), text.name + ": valid"};
    result->json["via"] = "file";
    if (!parsed.ok()) result->line = PlacedLine(text.name, "error", parsed.status().place(), parsed.status().message());
  }
  return PrintResult(*result, json);
}

// Exit codes of the edit verbs. 0: done; 2: the config is unusable, or has no "dynamic_on", or no such plan; 3: the
// config has other content than expected, or was saved at the same moment; 4: refused by the job, or superseded; 5: the
// config cannot be written, or --wait timed out; 6: no such job, or it is gone; 7: no change.
int RunStart(const SwitchArguments& arguments) {
  return Switch(arguments, true);
}

int RunStop(const SwitchArguments& arguments) {
  return Switch(arguments, false);
}

int RunApply(const ApplyArguments& arguments) {
  const Result<std::string> given = ReadGivenText(arguments.file);
  if (!given.ok()) return PrintResult(Unusable("file", arguments.file, given.status()), arguments.json);
  const EditText text{NameOfGiven(arguments.file), given.value()};
  const bool needs_no_target = arguments.dry_run && arguments.config.empty() && AllJobs().empty();
  const Result<EditTarget> target = needs_no_target ? EditTarget() : FindTarget(arguments.config);
  if (!target.ok()) return NoTarget(target.status(), arguments.json);
  const Status refusal = Check(text);
  if (arguments.dry_run) return DryRun(target.value(), text, arguments.json);
  if (!refusal.ok()) return PrintResult(Unusable("file", text.name, refusal), arguments.json);
  const std::string what = IsStandardInput(arguments.file) ? "the text of standard input" : text.name;
  const RemoteEdit edit{ApplyRoute(arguments), text.text, arguments.if_match, text.name, HoldsNow({what, text.text})};
  if (const auto exit_code = GoThroughJob(target.value(), edit, arguments.wait, arguments.json)) return *exit_code;
  if (arguments.is_volatile || arguments.at_step)
    return PrintResult(Failure(kExitUnreachable, "file", "no_job",
                               "no job in dynamic mode that could apply this text" +
                                   std::string(arguments.at_step ? " at a step" : "") + " watches " +
                                   base::Printable(target.value().config, 200) + "; the config is unchanged"),
                       arguments.json);
  return ApplyToFile(target.value().config, arguments.if_match, text, edit.done, arguments.json);
}

// The job knows the directories of its histories.
int RunRollback(const RollbackArguments& arguments) {
  const Result<EditTarget> target = FindTarget(arguments.config);
  if (!target.ok()) return NoTarget(target.status(), arguments.json);
  const std::string& config = target.value().config;
  if (target.value().job && arguments.history.empty()) {
    const std::string plan = arguments.plan_id == 0 ? "" : fmt::format("?plan={}", arguments.plan_id);
    const RemoteEdit edit{"/v1/rollback" + plan, "", arguments.if_match, config, "now holds an earlier config"};
    if (const auto exit_code = GoThroughJob(target.value(), edit, arguments.wait, arguments.json)) return *exit_code;
  }
  const Result<output::OldConfig> old =
      output::FindOldConfig(output::OutputBase(arguments.history), config, arguments.plan_id);
  if (!old.ok()) {
    const std::string why = base::Printable(old.status().message(), 1000);
    return PrintResult(Failure(kExitInvalid, "file", "no_old_config", why), arguments.json);
  }
  const output::AppliedConfig& from = old.value().from;
  const EditText text{fmt::format("the config of plan {} in {}", from.line.plan_id, from.directory), old.value().text};
  const Status refusal = Check(text);
  if (!refusal.ok()) return PrintResult(Unusable("file", text.name, refusal), arguments.json);
  const RemoteEdit edit{"/v1/apply", text.text, arguments.if_match, text.name, HoldsNow(text)};
  if (const auto exit_code = GoThroughJob(target.value(), edit, arguments.wait, arguments.json)) return *exit_code;
  return ApplyToFile(config, arguments.if_match, text, edit.done, arguments.json);
}

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
  verb->add_option("--if-match", *if_match, "write only if the current config has this SHA-256; otherwise exit 3")
      ->check(CheckSha256);
}

CLI::Option* AddWait(CLI::App* verb, WaitArguments* wait, const std::vector<std::string>& goals, const char* what) {
  CLI::Option* goal = verb->add_option("--wait", wait->goal, what)->check(CLI::IsMember(goals));
  verb->add_option("--timeout", wait->timeout, "seconds to wait before exit 5 (default: no limit)")
      ->check(CLI::PositiveNumber);
  return goal;
}

// Also for an option that implies --wait.
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
  verb->add_flag("--return", arguments->returns,
                 "with --volatile: the job goes back to its config file when the window of FILE is complete")
      ->needs("--volatile");
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
                   "number of the plan (default: the latest one with another config than the last applied plan)");
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
