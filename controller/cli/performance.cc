// `stepwatch performance`: how a run used its time and its machines.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "controller/cli/print_answer.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/text/performance_text.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

struct PerformanceArguments {
  std::string run;
  int64_t last_seconds = 86400;
  double reference = 100;
  std::string html;
  bool json = false;
  std::string stepwatchd;
};

int RunPerformance(const PerformanceArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  const Result<std::string> run = ResolveRun(client.value(), arguments.run);
  if (!run.ok()) return FailOperations(run.status(), arguments.json);
  const Result<Json> report =
      client.value().Get(fmt::format("/v1/runs/{}/performance?last={}&reference={}", UrlPiece(run.value()),
                                     arguments.last_seconds, arguments.reference));
  if (!report.ok()) return FailOperations(report.status(), arguments.json);
  if (!arguments.html.empty()) {
    if (const Status status = base::ReplaceFile(arguments.html, PerformancePage(report.value())); !status.ok())
      return FailInvalid(status, arguments.json);
  }
  if (arguments.json)
    PrintObject(report.value());
  else if (arguments.html.empty())
    (void)PrintAtOnce(PerformanceText(report.value()));
  else
    base::Print(stdout, "wrote %s\n", base::Printable(arguments.html, 200).c_str());
  return kExitDone;
}

}  // namespace

void AddPerformance(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<PerformanceArguments>();
  CLI::App* verb = app->add_subcommand("performance", "Report how a run used its time and its machines");
  verb->add_option("RUN", arguments->run, "id of a run, or a unique prefix of it")->required();
  verb->add_option_function<std::string>(
      "--last",
      [arguments](const std::string& text) {
        const auto seconds = ParseDuration(text);
        if (!seconds || *seconds <= 0)
          throw CLI::ValidationError("invalid duration \"" + base::Printable(text) + "\"; examples: 90m, 24h, 7d");
        arguments->last_seconds = *seconds;
      },
      "the window before now, or before the end of the run, such as 90m, 24h or 7d (default: 24h)");
  verb->add_option("--html", arguments->html, "write a page with plots into this file");
  verb->add_option("--reference", arguments->reference, "samples per second that the legacy score counts as full")
      ->check(CLI::Range(1e-9, 1e12))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object");
  verb->add_option("--stepwatchd", arguments->stepwatchd,
                   "socket file of stepwatchd (default: stepwatchd.sock in the runtime directory)");
  verb->footer(
      "Examples:\n  stepwatch performance 5f0c\n  stepwatch performance 5f0c --last 7d --html report.html\n"
      "Exit codes: 0 done, 2 no such run, an ambiguous prefix, or a file that cannot be written, 8 stepwatchd does\n"
      "not respond.");
  verb->callback([=] { *exit_code = RunPerformance(*arguments); });
}

}  // namespace stepwatch::cli
