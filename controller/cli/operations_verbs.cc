#include "controller/cli/operations_verbs.h"

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <string>

#include "controller/cli/ack_command.h"
#include "controller/cli/duration.h"
#include "controller/cli/incidents_command.h"
#include "controller/cli/runs_command.h"
#include "controller/cli/why_command.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

constexpr int64_t kIncidentsMax = 2000;

void AddSocket(CLI::App* verb, std::string* socket) {
  verb->add_option("--stepwatchd", *socket,
                   "socket file of stepwatchd (default: stepwatchd.sock in the runtime directory)");
}

void AddRuns(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RunsArguments>();
  CLI::App* verb = app->add_subcommand("runs", "List the runs that stepwatchd watches");
  verb->add_flag("--all", arguments->all, "include runs that ended and have no open incident");
  verb->add_flag("--json", arguments->json, "one JSON object instead of a table");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Examples:\n  stepwatch runs\n  stepwatch runs --all --json\n"
      "Exit codes: 0 done, 8 stepwatchd does not respond.");
  verb->callback([=] { *exit_code = RunRuns(*arguments); });
}

void AddIncidents(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<IncidentsArguments>();
  CLI::App* verb = app->add_subcommand("incidents", "List open incidents, or follow their changes");
  CLI::Option* watch =
      verb->add_flag("--watch", arguments->watch, "print each open incident, then each change, until interrupted");
  verb->add_option("--run", arguments->run, "only incidents of this run; a prefix of its id is enough");
  verb->add_flag("--all", arguments->all, "include resolved incidents")->excludes(watch);
  verb->add_option("--limit", arguments->limit, "maximum number of incidents, latest change first")
      ->check(CLI::Range(int64_t{1}, kIncidentsMax))
      ->capture_default_str()
      ->excludes(watch);
  verb->add_flag("--json", arguments->json, "one JSON object; with --watch one per line");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "With --watch, the command waits for a stepwatchd that restarts and then prints the changes that it missed. The\n"
      "line \"gap\" reports changes that stepwatchd no longer keeps.\n"
      "Examples:\n  stepwatch incidents\n  stepwatch incidents --run 5f0c --all --limit 20\n"
      "  stepwatch incidents --watch --json\n"
      "Exit codes: 0 done, or --watch interrupted, 2 no such run, 8 stepwatchd does not respond.");
  verb->callback([=] { *exit_code = RunIncidents(*arguments); });
}

void AddAck(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<AckArguments>();
  CLI::App* verb = app->add_subcommand("ack", "Acknowledge an incident");
  verb->add_option("INCIDENT", arguments->incident, "id, or a unique prefix of it")->required();
  verb->add_option("--note", arguments->note, "message for others");
  verb->add_option("--by", arguments->by, "author (default: this user)");
  verb->add_flag("--json", arguments->json, "print the response of stepwatchd, one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Example: stepwatch ack 1a2b --note \"node 7 is drained\"\n"
      "Exit codes: 0 done, 2 no such incident, or an ambiguous prefix, 5 permission denied, 8 stepwatchd does not "
      "respond.");
  verb->callback([=] { *exit_code = RunAck(*arguments); });
}

void AddSilence(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SilenceArguments>();
  CLI::App* verb = app->add_subcommand("silence", "Silence future incidents for a while");
  verb->add_option("--run", arguments->run,
                   "only incidents of this run: a prefix of its id, or a pattern with * (default: all)");
  verb->add_option("--kind", arguments->kind,
                   "only incidents of this kind, such as straggler; may contain * (default: all)");
  CLI::Option* span = verb->add_option_function<std::string>(
      "--for",
      [arguments](const std::string& text) {
        const auto seconds = ParseTimespan(text);
        if (!seconds)
          throw CLI::ValidationError("invalid duration \"" + base::Printable(text) + "\"; examples: 90m, 2h, 3d");
        arguments->seconds = *seconds;
      },
      "duration, such as 90m, 2h or 3d");
  verb->add_option("--note", arguments->note, "reason");
  verb->add_option("--by", arguments->by, "author (default: this user)");
  CLI::Option* list = verb->add_flag("--list", arguments->list, "list the active silences")->excludes(span);
  verb->add_option("--end", arguments->end, "end this silence: a prefix of its id")->excludes(span)->excludes(list);
  verb->add_flag("--json", arguments->json, "print the response of stepwatchd, one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Matching incidents still open, and are marked as silenced.\n"
      "Examples:\n  stepwatch silence --run 5f0c --kind straggler --for 2h --note \"slow node is known\"\n"
      "  stepwatch silence --list\n  stepwatch silence --end 9e1d\n"
      "Exit codes: 0 done, 2 no such kind or silence, 5 permission denied, or too many silences, 8 stepwatchd does "
      "not\n"
      "respond.");
  verb->callback([=] { *exit_code = RunSilence(*arguments); });
}

void AddWhy(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<WhyArguments>();
  CLI::App* verb = app->add_subcommand("why", "Explain the incidents of a run, and where to look next");
  verb->add_option("RUN", arguments->run, "prefix of a run id (default: the run with the most severe open incident)");
  verb->add_flag("--stacks", arguments->stacks, "print the collected stacks in full");
  verb->add_flag("--json", arguments->json, "one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Prints since when, which rank and layer first, the changes just before, the evidence, and where to look. The\n"
      "changes come from the job while it runs on this machine, else from its history in MONITOR_OUTPUT_DIR\n"
      "(./monitor_output).\n"
      "Examples:\n  stepwatch why\n  stepwatch why 5f0c --stacks\n"
      "Exit codes: 0 done, 2 no such run, or an ambiguous prefix, 8 stepwatchd does not respond.");
  verb->callback([=] { *exit_code = RunWhy(*arguments); });
}

}  // namespace

void AddOperationsVerbs(CLI::App* app, int* exit_code) {
  AddRuns(app, exit_code);
  AddIncidents(app, exit_code);
  AddAck(app, exit_code);
  AddSilence(app, exit_code);
  AddWhy(app, exit_code);
}

}  // namespace stepwatch::cli
