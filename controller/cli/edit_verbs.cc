#include "controller/cli/edit_verbs.h"

#include <memory>
#include <string>

#include "controller/cli/edit_commands.h"

namespace stepwatch::cli {
namespace {

// As `validate --json` prints it.
std::string CheckSha256(const std::string& text) {
  const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return text.size() == 64 && is_hex ? "" : "is not a SHA-256 of 64 digits, as `stepwatch validate --json` prints it";
}

std::string SwitchFooter(const std::string& name) {
  return "That word alone changes; comments and formatting stay. A config without the key is left alone.\n"
         "Example: stepwatch " +
         name +
         " config.json\n"
         "Exit codes: 0 written, 2 unusable config, 3 conflict, 5 the file cannot be written, 7 no change.";
}

void AddSwitch(CLI::App* app, const std::string& name, const std::string& what, int (*run)(const SwitchArguments&),
               int* exit_code) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* verb = app->add_subcommand(name, what);
  verb->add_option("FILE", arguments->file, "config.json")->required();
  AddIfMatch(verb, &arguments->if_match);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(SwitchFooter(name));
  verb->callback([=] { *exit_code = run(*arguments); });
}

void AddApply(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ApplyArguments>();
  CLI::App* verb = app->add_subcommand("apply", "Put a config in the place of the one that a job watches");
  verb->add_option("FILE", arguments->file, "the new config")->required();
  verb->add_option("--config", arguments->config, "the config.json of the job; created if it is not there")->required();
  AddIfMatch(verb, &arguments->if_match);
  verb->add_flag("--json", arguments->json, "one JSON object instead of a line");
  verb->footer(
      "FILE is checked first, as `stepwatch validate` does. An edit saved at the same moment is never lost.\n"
      "Example: stepwatch apply gradients.json --config config.json\n"
      "Exit codes: 0 written, 2 unusable FILE, 3 conflict, 5 the config cannot be written, 7 no change.");
  verb->callback([=] { *exit_code = RunApply(*arguments); });
}

}  // namespace

void AddIfMatch(CLI::App* verb, std::string* if_match) {
  verb->add_option("--if-match", *if_match, "only if the config holds the bytes with this SHA-256; otherwise exit 3")
      ->check(CheckSha256);
}

void AddEditVerbs(CLI::App* app, int* exit_code) {
  AddSwitch(app, "start", "Make \"dynamic_on\" true in a config: a job that watches it begins to collect", RunStart,
            exit_code);
  AddSwitch(app, "stop", "Make \"dynamic_on\" false in a config: a job that watches it stops at its next step", RunStop,
            exit_code);
  AddApply(app, exit_code);
}

}  // namespace stepwatch::cli
