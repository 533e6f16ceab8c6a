// The command line `stepwatch`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "controller/cli/print_answer.h"
#include "controller/cli/verbs.h"
#include "src/base/print.h"
#include "stepwatch/version.h"

int main(int argc, char** argv) try {
  using namespace stepwatch::cli;
  CLI::App app("Stepwatch monitors a training job while it runs; config.json controls what is collected.");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("stepwatch ") + stepwatch::kVersion);
  app.footer(
      "Examples:\n"
      "  stepwatch validate config.json\n"
      "  stepwatch rehearse config.json --dynamic --steps 100 --step-time 50ms\n"
      "  stepwatch watch config.json --json\n"
      "  stepwatch start config.json\n"
      "  stepwatch apply gradients.json --config config.json\n"
      "  stepwatch history monitor_output\n"
      "  stepwatch pause\n"
      "  stepwatch why\n"
      "  stepwatch logs logs/rank*.log\n"
      "  stepwatch csv2tb --monitor-path monitor_output\n"
      "  stepwatch prune monitor_output --older-than 30d\n"
      "\nExit codes: 0 done, 2 invalid config or command line, 3 conflict with another edit, 5 done in part or not\n"
      "possible here, 6 no such job, 7 no change, 8 stepwatchd does not respond, 130 interrupted.");
  int exit_code = kExitDone;
  for (const auto add :
       {AddValidate, AddPlan, AddWatch, AddRehearse, AddEditVerbs, AddHistoryVerbs, AddPauseVerbs, AddDoctor,
        AddJobVerbs, AddTop, AddOperationsVerbs, AddPerformance, AddOfflineVerbs, AddTextVerbs, AddPrune, AddLogs})
    add(&app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitInvalid;
  }
  return exit_code;
} catch (const std::exception& error) {
  stepwatch::base::Print(stderr, "stepwatch: %s\n", error.what());
  return stepwatch::cli::kExitInvalid;
}
