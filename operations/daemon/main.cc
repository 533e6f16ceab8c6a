// `stepwatchd`: one verb, one command file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "operations/daemon/check_config_command.h"
#include "operations/daemon/provision_command.h"
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

void AddProvision(CLI::App* app, ProvisionArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand(
      "provision", "Write configuration for Prometheus, Alertmanager and Grafana, and for agents of logs");
  ProvisionOptions& options = arguments->options;
  verb->add_option("DIR", arguments->directory, "directory of the files; made if missing")->required();
  verb->add_option("--prometheus", options.prometheus, "oldest version that reads the files")->capture_default_str();
  verb->add_option("--gpu-source", options.gpu_source, "whose metrics of GPUs rules and dashboards use: nvml, dcgm")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, GpuSource>{{"nvml", GpuSource::kNvml}, {"dcgm", GpuSource::kDcgm}}))
      ->default_str("nvml");
  verb->add_option("--cluster", options.cluster, "label of every series and alert")->capture_default_str();
  verb->add_option("--replica", options.replica, "label of this one of several equal Prometheus")
      ->capture_default_str();
  verb->add_option("--interval", options.interval_seconds, "seconds between scrapes, and between evaluations of rules")
      ->capture_default_str();
  verb->add_flag("!--file-sd", options.has_http_sd,
                 "take the targets of stepwatchd from targets/stepwatchd.yml, not over HTTP from each");
  verb->add_option("--stepwatchd", options.stepwatchd, "HOST:PORT of each stepwatchd")->capture_default_str();
  verb->add_option("--node", options.nodes, "HOST:PORT of each node exporter")->capture_default_str();
  verb->add_option("--dcgm", options.dcgm, "HOST:PORT of each dcgm-exporter")->capture_default_str();
  verb->add_option("--alertmanager", options.alertmanagers, "HOST:PORT of each Alertmanager")->capture_default_str();
  verb->add_option("--secrets", options.secrets, "directory of the files with tokens and passwords")
      ->capture_default_str();
  verb->add_option("--notify", options.notify, "receiver of stepwatchd that gets every alert")->capture_default_str();
  verb->add_option("--email", options.email, "address that gets every alert");
  verb->add_option("--email-from", options.email_from, "sender of e-mail, and user at the SMTP server");
  verb->add_option("--smtp", options.smtp, "HOST:PORT of the SMTP server");
  verb->add_option("--slack", options.slack, "channel that gets every alert");
  verb->add_flag("--pagerduty", options.has_pagerduty, "send critical alerts to PagerDuty");
  verb->add_option("--team", options.teams,
                   "COMPONENT=ADDRESS, for a copy of the alerts of gpu, training, system or monitoring");
  verb->add_option("--grafana", options.grafana, "URL of Grafana, for links in alerts");
  verb->add_option("--runbook", options.runbook, "URL to which an alert adds its name, for links in alerts");
  verb->add_option("--watchdog", options.watchdog,
                   "URL of a dead man's switch, which raises the alarm when its requests stop");
  verb->add_option("--logs", options.logs, "files of logs that agents read; the last part may contain *")
      ->capture_default_str();
  verb->add_option("--syslog", options.syslog, "HOST:PORT at which stepwatchd accepts syslog")->capture_default_str();
  verb->add_option("--elasticsearch", options.elasticsearch, "URL of Elasticsearch")->capture_default_str();
  verb->add_flag("--force", arguments->is_forced, "replace edited files as well");
  verb->footer(
      "Exit codes: 0 all files are as the options require; 1 a file cannot be written; 2 invalid option; 3 edited "
      "files were kept.");
  verb->callback([=] { *exit_code = RunProvision(*arguments); });
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
  ProvisionArguments provision;
  TestAlertArguments test_alert;
  AddRun(&app, &run, &exit_code);
  AddCheckConfig(&app, &check_config, &exit_code);
  AddReplay(&app, &replay, &exit_code);
  AddProvision(&app, &provision, &exit_code);
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
