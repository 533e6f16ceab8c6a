#include "controller/cli/edit_commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "controller/cli/config_change.h"
#include "controller/cli/config_file.h"
#include "controller/cli/edit_target.h"
#include "controller/cli/find_job.h"
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
using Outcome = writeback::WriteBackOutcome;

// More saves than anybody makes while a word is changed.
constexpr int kTriesMax = 20;

EditResult Conflict(const std::string& config, const std::string& if_match, const writeback::WriteBackResult& result) {
  if (if_match.empty()) return Failure(kExitConflict, "file", "conflict", result.message);
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(config);
  const std::string found = snapshot.kind == watch::SnapshotKind::kBytes ? snapshot.sha256 : "";
  EditResult told = Failure(kExitConflict, "file", "conflict",
                            fmt::format("{} has SHA-256 {}, not {}; the file is unchanged",
                                        base::Printable(config, 200), found.empty() ? "no config" : found, if_match));
  told.json["error"]["expected_sha256"] = if_match;
  told.json["error"]["found_sha256"] = found;
  return told;
}

EditResult Done(const std::string& config, const std::string& done, const writeback::WriteBackResult& result) {
  const bool is_written = result.outcome == Outcome::kWritten;
  EditResult told{is_written ? kExitDone : kExitNoChange,
                  {{"version", 1},
                   {"config", config},
                   {"outcome", is_written ? "written" : "unchanged"},
                   {"method", result.method},
                   {"replaced_sha256", result.found_sha256},
                   {"sha256", result.sha256},
                   {"via", "file"}},
                  base::Printable(config, 200)};
  told.line += " " + (is_written ? done : "already holds this config: no change");
  return told;
}

// Of a change of the file.
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

// A text that no job would take is not touched: the word alone would have no effect.
int SwitchFile(const std::string& config, const SwitchArguments& arguments, bool on) {
  const std::string done =
      fmt::format("now has \"dynamic_on\": {}; a job in dynamic mode applies it at its next step", on);
  ConfigChange change(config);
  EditResult told;
  for (int i = 1; i <= kTriesMax; ++i) {
    const Result<ConfigFile> file = ReadConfigFile(config);
    if (!file.ok()) return Print(Unusable("file", config, file.status()), arguments.json);
    const std::string& expected = arguments.if_match.empty() ? file.value().sha256 : arguments.if_match;
    const writeback::WriteBackResult result =
        change.Make([&] { return writeback::SetDynamicOn(config, expected, on); });
    // Somebody saved meanwhile: the word is changed in what they saved.
    if (result.outcome == Outcome::kEdited && arguments.if_match.empty() && i < kTriesMax) continue;
    told = ResultOf(config, arguments.if_match, done, result);
    break;
  }
  const int exit_code = Print(told, arguments.json);
  change.LookAfterDisplaced();
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
  const int exit_code = Print(ResultOf(config, if_match, done, result), json);
  change.LookAfterDisplaced();
  return exit_code;
}

// Through the control socket of the job, if there is one that takes it; nothing: the file is to be written.
std::optional<int> GoThroughJob(const EditTarget& target, const RemoteEdit& edit, const WaitArguments& wait,
                                bool json) {
  std::optional<EditResult> result = target.job ? EditRunningJob(*target.job, edit) : std::nullopt;
  if (result) {
    WaitArguments arguments = wait;
    arguments.tells = !json;
    AwaitEdit(*target.job, arguments, &*result);
    return Print(*result, json);
  }
  const std::string config = base::Printable(target.config, 200);
  if (!wait.goal.empty())
    return Print(
        Failure(kExitUnreachable, "file", "no_job",
                fmt::format("no job in dynamic mode watches {}, so --wait is not possible; the file is unchanged",
                            config.empty() ? "a config" : config)),
        json);
  if (target.config.empty())
    return Print(
        Failure(kExitUnreachable, "file", "no_job", "the job accepts no changes and does not report its config file"),
        json);
  return std::nullopt;
}

int NoTarget(const Status& status, bool json) {
  if (!json) return NoJob(status, false);
  const bool is_unclear = status.code() == StatusCode::kInvalid;
  return Print(Failure(is_unclear ? kExitInvalid : kExitUnreachable, "file", is_unclear ? "invalid" : "no_job",
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

// Prints what is odd about a text, to standard error.
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
  if (arguments.at_step) query += fmt::format("{}at_step={}", query.empty() ? "" : "&", *arguments.at_step);
  return query.empty() ? "/v1/apply" : "/v1/apply?" + query;
}

// What FILE holds, and whether a job would take it; nothing is changed.
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
  return Print(*result, json);
}

}  // namespace

int RunStart(const SwitchArguments& arguments) {
  return Switch(arguments, true);
}

int RunStop(const SwitchArguments& arguments) {
  return Switch(arguments, false);
}

int RunApply(const ApplyArguments& arguments) {
  const Result<std::string> given = ReadGivenText(arguments.file);
  if (!given.ok()) return Print(Unusable("file", arguments.file, given.status()), arguments.json);
  const EditText text{NameOfGiven(arguments.file), given.value()};
  const bool needs_no_target = arguments.dry_run && arguments.config.empty() && AllJobs().empty();
  const Result<EditTarget> target = needs_no_target ? EditTarget() : FindTarget(arguments.config);
  if (!target.ok()) return NoTarget(target.status(), arguments.json);
  const Status refusal = Check(text);
  if (arguments.dry_run) return DryRun(target.value(), text, arguments.json);
  if (!refusal.ok()) return Print(Unusable("file", text.name, refusal), arguments.json);
  const std::string what = IsStandardInput(arguments.file) ? "the text of standard input" : text.name;
  const RemoteEdit edit{ApplyRoute(arguments), text.text, arguments.if_match, text.name, HoldsNow({what, text.text})};
  if (const auto exit_code = GoThroughJob(target.value(), edit, arguments.wait, arguments.json)) return *exit_code;
  if (arguments.is_volatile || arguments.at_step)
    return Print(Failure(kExitUnreachable, "file", "no_job",
                         "no job in dynamic mode that could apply this text" +
                             std::string(arguments.at_step ? " at a step" : "") + " watches " +
                             base::Printable(target.value().config, 200) + "; the config is unchanged"),
                 arguments.json);
  return ApplyToFile(target.value().config, arguments.if_match, text, edit.done, arguments.json);
}

// The job knows where the histories of its runs lie.
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
    return Print(Failure(kExitInvalid, "file", "no_old_config", why), arguments.json);
  }
  const output::AppliedConfig& from = old.value().from;
  const EditText text{fmt::format("the config of plan {} in {}", from.line.plan_id, from.directory), old.value().text};
  const Status refusal = Check(text);
  if (!refusal.ok()) return Print(Unusable("file", text.name, refusal), arguments.json);
  const RemoteEdit edit{"/v1/apply", text.text, arguments.if_match, text.name, HoldsNow(text)};
  if (const auto exit_code = GoThroughJob(target.value(), edit, arguments.wait, arguments.json)) return *exit_code;
  return ApplyToFile(config, arguments.if_match, text, edit.done, arguments.json);
}

}  // namespace stepwatch::cli
