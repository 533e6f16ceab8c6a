// `stepwatchd`: one verb, one command file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "operations/daemon/check_config_command.h"
#include "operations/daemon/replay_command.h"
#include "operations/daemon/run_command.h"
#include "operations/daemon/test_alert_command.h"
#include "src/base/print.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

void AddReplay(CLI::App* app, ReplayArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("replay", "Run the detectors over recorded beats and events, in virtual time");
  verb->add_option("FILE", arguments->file, "one JSON object per line, sorted by t; - reads standard input")
      ->required();
  verb->add_flag("--json", arguments->json, "one JSON object per change of an incident");
  verb->add_option("--tail", arguments->tail_seconds, "virtual seconds after the last line")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  verb->footer("Exit codes: 0 replayed, whether or not there were incidents; 2 FILE is unreadable.");
  verb->callback([=] { *exit_code = RunReplay(*arguments); });
}

void AddRun(CLI::App* app, RunArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("run", "Watch the runs of this machine and those sent over HTTP");
  verb->add_option("--config", arguments->config, "stepwatchd.json; edits apply while stepwatchd runs");
  verb->add_option("--state", arguments->state,
                   "directory of the store; default: STATE_DIRECTORY, or ~/.local/state/stepwatchd");
  verb->add_option("--socket", arguments->socket,
                   "socket to listen on; default: stepwatchd.sock in the runtime directory");
  verb->footer("Exit codes: 0 ended by SIGTERM or SIGINT; 1 cannot start; 2 invalid settings.");
  verb->callback([=] { *exit_code = RunDaemon(*arguments); });
}

void AddCheckConfig(CLI::App* app, CheckConfigArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("check-config", "Check settings and print their errors and warnings");
  verb->add_option("FILE", arguments->file, "stepwatchd.json")->required();
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer("Exit codes: 0 valid; 2 invalid.");
  verb->callback([=] { *exit_code = RunCheckConfig(*arguments); });
}

void AddTestAlert(CLI::App* app, TestAlertArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("test-alert", "Send a test message to a receiver of the settings");
  verb->add_option("RECEIVER", arguments->receiver, "the name of a receiver")->required();
  verb->add_option("--config", arguments->config, "stepwatchd.json");
  verb->footer("Exit codes: 0 accepted; 1 failed or rejected; 2 invalid settings, or no such receiver.");
  verb->callback([=] { *exit_code = RunTestAlert(*arguments); });
}

int Run(int argc, char** argv) {
  CLI::App app("Detects and explains incidents in training runs", "stepwatchd");
  app.set_version_flag("--version", std::string("stepwatchd ") + kVersion);
  app.require_subcommand(1);
  int exit_code = 0;
  RunArguments run;
  CheckConfigArguments check_config;
  ReplayArguments replay;
  TestAlertArguments test_alert;
  AddRun(&app, &run, &exit_code);
  AddCheckConfig(&app, &check_config, &exit_code);
  AddReplay(&app, &replay, &exit_code);
  AddTestAlert(&app, &test_alert, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace
}  // namespace stepwatch::operations

int main(int argc, char** argv) {
  try {
    return stepwatch::operations::Run(argc, argv);
  } catch (const std::exception& error) {
    stepwatch::base::Print(stderr, "stepwatchd: %s\n", error.what());
    return 2;
  }
}
