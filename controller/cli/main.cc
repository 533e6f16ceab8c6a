// The command line `stepwatch`: one verb, one command file.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "controller/cli/doctor_command.h"
#include "controller/cli/edit_verbs.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/history_verbs.h"
#include "controller/cli/job_commands.h"
#include "controller/cli/motion_verbs.h"
#include "controller/cli/offline_commands.h"
#include "controller/cli/operations_verbs.h"
#include "controller/cli/plan_command.h"
#include "controller/cli/prune_command.h"
#include "controller/cli/rehearse_command.h"
#include "controller/cli/text_verbs.h"
#include "controller/cli/top_command.h"
#include "controller/cli/validate_command.h"
#include "controller/cli/watch_command.h"
#include "src/base/print.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/version.h"

namespace stepwatch::cli {
namespace {

// Not CLI::NonNegativeNumber: its message spells out the largest double.
const CLI::Range kFromZero(int64_t{0}, int64_t{1} << 53);

// "10ms", "500us", "2s"; a plain number is in milliseconds.
std::chrono::microseconds ParseDuration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end == text.c_str() ? "no number" : end;
  const double microseconds = unit == "us" ? number : unit.empty() || unit == "ms" ? number * 1e3 : number * 1e6;
  if ((unit != "us" && unit != "ms" && unit != "s" && !unit.empty()) || !(microseconds >= 0) || microseconds > 3.6e9)
    throw CLI::ValidationError("invalid duration \"" + text + "\"; examples: 10ms, 500us, 2s");
  return std::chrono::microseconds(static_cast<int64_t>(microseconds));
}

void AddValidate(CLI::App* app, ValidateArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("validate", "Check a config and print its errors and warnings");
  verb->add_option("FILE", arguments->file, "config.json; - reads standard input")->required();
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->callback([=] { *exit_code = RunValidate(*arguments); });
}

void AddPlan(CLI::App* app, PlanArguments* arguments, int* exit_code) {
  CLI::App* verb =
      app->add_subcommand("plan", "Show what a config would change in a running job, or what a new job would collect");
  verb->add_option("FILE", arguments->file, "config.json; - reads standard input")->required();
  CLI::Option* job =
      verb->add_option("--job", arguments->job,
                       "compare with the plan of this job: its name in `stepwatch ps`, a pid, a socket, a "
                       "config file or the prefix of a run id (default: the job that watches FILE, else the "
                       "only job)");
  verb->add_option("--sites", arguments->sites,
                   "use the model in this manifest.json of a run instead of a job; adds sites, rows and bytes per step")
      ->excludes(job);
  verb->add_option("--rank", arguments->rank, "rank for which module_ranks is evaluated")->check(kFromZero);
  verb->add_flag("--dynamic", arguments->dynamic, "assume dynamic mode");
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->footer(
      "The job compiles the config for its model and changes nothing. Without a job, the exit code is 0 or 2.\n"
      "Examples:\n"
      "  stepwatch plan gradients.json --job config.json\n"
      "  stepwatch plan config.json --sites monitor_output/Dec03_21-34-40-rank0-1a2b3c4d/manifest.json\n"
      "Exit codes: 0 same as the running plan, 1 different, 2 invalid FILE, 6 no such job, or the job does not "
      "respond.");
  verb->callback([=] { *exit_code = RunPlan(*arguments); });
}

void AddDoctor(CLI::App* app, DoctorArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("doctor", "List the statistics engines available on this machine");
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->callback([=] { *exit_code = RunDoctor(*arguments); });
}

constexpr const char* kJob =
    "a name from `stepwatch ps`, a pid, a socket, a config file or the prefix of a run id "
    "(default: the only job)";

void AddJobs(CLI::App* app, PsArguments* ps, StatusArguments* status, EventsArguments* events, int* exit_code) {
  CLI::App* list = app->add_subcommand("ps", "List the running jobs of this user on this machine");
  list->add_flag("--json", ps->json, "one JSON object instead of a table");
  list->callback([=] { *exit_code = RunPs(*ps); });
  CLI::App* show = app->add_subcommand("status", "Show the state of a running job and of its config file");
  show->add_option("JOB", status->job, kJob);
  show->add_flag("--json", status->json, "one JSON object instead of lines");
  show->add_flag("--watch", status->watch, "refresh every second until interrupted");
  show->add_flag("--ranks", status->ranks, "show the state of each rank, queried through the job's store");
  show->callback([=] { *exit_code = RunStatus(*status); });
  CLI::App* follow = app->add_subcommand("events", "Stream events of a running job, starting with recent ones");
  follow->add_option("JOB", events->job, kJob);
  follow->add_flag("--json", events->json, "one JSON object for each event");
  follow->callback([=] { *exit_code = RunEvents(*events); });
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const SiteKindTraits& traits : kSiteKindTraits) names.emplace_back(traits.name);
  names.emplace_back(kCostKind);
  return names;
}

void AddTop(CLI::App* app, TopArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("top", "Show the latest values of a running job, live");
  verb->add_option("JOB", arguments->job, kJob);
  verb->add_option("--kind", arguments->kind,
                   "kind of site: grad_reduced, actv, ... (default: the first with values), or cost: the time that "
                   "measuring takes, by kind")
      ->check(CLI::IsMember(KindNames()));
  verb->add_option("--sort", arguments->choice.sort, "sort by this statistic, such as norm, largest first");
  verb->add_flag("--reverse", arguments->choice.ascending, "sort smallest first");
  verb->add_option("--filter", arguments->choice.filter, "only sites whose name contains this text");
  verb->add_option("--interval", arguments->interval_seconds, "seconds between refreshes")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  verb->add_flag("--once", arguments->once, "print one table and exit; the default without a terminal");
  verb->add_flag("--json", arguments->json, "one JSON object: status, ranks and all values of the kind");
  verb->footer(
      "Keys: q quits; Tab and k select the next kind with values (Shift-Tab and K the previous); < and > or the left\n"
      "and right arrows select the sort column; r reverses; / filters by name (Enter keeps, Esc clears); arrows,\n"
      "PageUp, PageDown, Home and End scroll. NaN and infinite values come first, in red.\n"
      "Examples:\n"
      "  stepwatch top\n"
      "  stepwatch top config.json --kind grad_reduced --sort norm\n"
      "  stepwatch top --kind cost --sort ms/step\n"
      "  stepwatch top --once --sort max | head -20\n"
      "Exit codes: 0 done, 2 ambiguous JOB, 6 no such job, or it has ended, 130 interrupted.");
  verb->callback([=] { *exit_code = RunTop(*arguments); });
}

void AddWatch(CLI::App* app, WatchArguments* arguments, int* exit_code) {
  CLI::App* verb =
      app->add_subcommand("watch", "Run the watcher on a config file and print each change that it detects");
  verb->add_option("FILE", arguments->file, "config.json; it may not exist yet")->required();
  verb->add_flag("--json", arguments->json, "one JSON object per line");
  verb->add_option("--for", arguments->for_seconds, "exit after this many seconds");
  verb->add_flag("--poll-only", arguments->poll_only, "poll every second instead of using inotify");
  verb->callback([=] { *exit_code = RunWatch(*arguments); });
}

void AddRehearse(CLI::App* app, RehearseArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand(
      "rehearse", "Run the whole monitor on a synthetic model, to try a config before a job uses it");
  verb->add_option("FILE", arguments->file, "config.json")->required();
  verb->add_option("--steps", arguments->steps, "training steps")->check(kFromZero)->capture_default_str();
  verb->add_option_function<std::string>(
      "--step-time", [=](const std::string& text) { arguments->step_time = ParseDuration(text); },
      "duration of a step, such as 10ms (the default), 500us or 2s");
  verb->add_option("--sites", arguments->sites, "layers of the synthetic model")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--elements", arguments->elements, "elements of each tensor")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28))
      ->capture_default_str();
  verb->add_option("--grad-acc", arguments->grad_acc, "micro-batches per step")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--start-iteration", arguments->start_iteration, "number of the first step")
      ->check(kFromZero)
      ->capture_default_str();
  verb->add_flag("--dynamic", arguments->dynamic, "use dynamic mode (default: from DYNAMIC_MONITOR)");
  verb->add_option("--out", arguments->out, "output base (default: MONITOR_OUTPUT_DIR, else ./monitor_output)");
  verb->add_option("--rank", arguments->rank, "rank of this process in a job of several")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  verb->add_option("--world-size", arguments->world_size, "number of ranks of the job; run one `rehearse` for each")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--store", arguments->store, "new directory through which the ranks agree");
  verb->add_flag("--json", arguments->json, "one JSON object per step and per event");
  verb->callback([=] { *exit_code = RunRehearse(*arguments); });
}

void AddThreads(CLI::App* verb, int* process_num) {
  verb->add_option("--process-num,--process_num", *process_num, "number of threads")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
}

void AddCsvToTensorBoard(CLI::App* app, offline::CsvToTensorBoardOptions* options, int* exit_code) {
  CLI::App* verb = app->add_subcommand("csv2tb", "Convert CSV files to TensorBoard files");
  verb->add_option("--monitor-path,--monitor_path", options->monitor_path,
                   "output base directory, which holds one directory per rank")
      ->required();
  verb->add_option("--time-start,--time_start", options->range.start,
                   "only runs that began at this time or later, such as Dec03_21-34-40");
  verb->add_option("--time-end,--time_end", options->range.end, "only runs that began at this time or earlier");
  AddThreads(verb, &options->process_num);
  verb->add_option("--data-type-list,--data_type_list", options->data_type_list,
                   "kinds to convert, as in the file names (default: all)")
      ->delimiter(',');
  verb->add_option("--output-dirpath,--output_dirpath", options->output_dirpath,
                   "default: {time}-csv2tensorboard_by_step in the output base");
  verb->callback([=] { *exit_code = RunCsvToTensorBoard(*options); });
}

void AddCsvToDatabase(CLI::App* app, CsvToDatabaseArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("csv2db", "Import CSV files into a SQLite database");
  verb->add_option("--db", arguments->db, "directory for monitor_data.trend.db")->required();
  verb->add_option("--data", arguments->data, "output base directory, which holds one directory per rank")->required();
  verb->add_option("--format", arguments->format, "format of the data")
      ->check(CLI::IsMember({"auto", "dump", "monitor"}))
      ->capture_default_str();
  verb->add_option("--mapping", arguments->mapping, "JSON file of replacements in names: {\"old\": \"new\"}");
  verb->add_option("--micro_step,--micro-step", arguments->options.micro_step,
                   "use consecutive micro-steps as the steps of the database")
      ->capture_default_str();
  AddThreads(verb, &arguments->options.process_num);
  verb->callback([=] { *exit_code = RunCsvToDatabase(*arguments); });
}

void AddAnomaly(CLI::App* app, AnomalyArguments* arguments, int* exit_code) {
  CLI::App* verb = app->add_subcommand("anomaly", "Sort the alarms of all ranks and print the first ones");
  verb->add_option("-d,--data_path", arguments->options.data_path, "the directory anomaly_detected")->required();
  verb->add_option("-o,--out_path", arguments->options.out_path, "existing directory for anomaly_analyse.json");
  verb->add_option("-k,--topk", arguments->options.topk, "number of alarms to print")->capture_default_str();
  verb->add_option("-s,--step,--step_list", arguments->steps, "only these steps, such as \"[3, 7]\"");
  verb->callback([=] { *exit_code = RunAnomaly(*arguments); });
}

}  // namespace
}  // namespace stepwatch::cli

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
      "  stepwatch csv2tb --monitor-path monitor_output\n"
      "  stepwatch prune monitor_output --older-than 30d\n"
      "\nExit codes: 0 done, 2 invalid config or command line, 3 conflict with another edit, 5 done in part or not\n"
      "possible here, 6 no such job, 7 no change, 8 stepwatchd does not respond, 130 interrupted.");
  int exit_code = kExitDone;
  ValidateArguments validate;
  PlanArguments plan;
  WatchArguments watch;
  RehearseArguments rehearse;
  DoctorArguments doctor;
  PsArguments ps;
  StatusArguments status;
  EventsArguments events;
  TopArguments top;
  stepwatch::offline::CsvToTensorBoardOptions csv_to_tensorboard;
  CsvToDatabaseArguments csv_to_database;
  AnomalyArguments anomaly;
  AddValidate(&app, &validate, &exit_code);
  AddPlan(&app, &plan, &exit_code);
  AddWatch(&app, &watch, &exit_code);
  AddRehearse(&app, &rehearse, &exit_code);
  AddEditVerbs(&app, &exit_code);
  AddHistoryVerbs(&app, &exit_code);
  AddMotionVerbs(&app, &exit_code);
  AddDoctor(&app, &doctor, &exit_code);
  AddJobs(&app, &ps, &status, &events, &exit_code);
  AddTop(&app, &top, &exit_code);
  AddOperationsVerbs(&app, &exit_code);
  AddCsvToTensorBoard(&app, &csv_to_tensorboard, &exit_code);
  AddCsvToDatabase(&app, &csv_to_database, &exit_code);
  AddAnomaly(&app, &anomaly, &exit_code);
  AddTextVerbs(&app, &exit_code);
  AddPrune(&app, &exit_code);
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
