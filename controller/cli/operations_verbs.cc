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
                   "the socket file of stepwatchd (default: stepwatchd.sock where the sockets of jobs lie)");
}

void AddRuns(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RunsArguments>();
  CLI::App* verb = app->add_subcommand("runs", "List the runs that stepwatchd watches");
  verb->add_flag("--all", arguments->all, "also those that have ended and of which nothing is open");
  verb->add_flag("--json", arguments->json, "one JSON object instead of a table");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Examples:\n  stepwatch runs\n  stepwatch runs --all --json\n"
      "Exit codes: 0 done, 8 no stepwatchd answers.");
  verb->callback([=] { *exit_code = RunRuns(*arguments); });
}

void AddIncidents(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<IncidentsArguments>();
  CLI::App* verb = app->add_subcommand("incidents", "List the incidents that are open, or follow what becomes of them");
  CLI::Option* watch = verb->add_flag(
      "--watch", arguments->watch, "a line for each that is open, then one for each change, until it is interrupted");
  verb->add_option("--run", arguments->run, "only of this run; the beginning of its id is enough");
  verb->add_flag("--all", arguments->all, "also those that are resolved")->excludes(watch);
  verb->add_option("--limit", arguments->limit, "at most so many, the one that changed last first")
      ->check(CLI::Range(int64_t{1}, kIncidentsMax))
      ->capture_default_str()
      ->excludes(watch);
  verb->add_flag("--json", arguments->json, "one JSON object; with --watch one a line");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "A stepwatchd that is restarted is waited for, and what it told meanwhile follows. The line gap says that some\n"
      "changes are not kept any more.\n"
      "Examples:\n  stepwatch incidents\n  stepwatch incidents --run 5f0c --all --limit 20\n"
      "  stepwatch incidents --watch --json\n"
      "Exit codes: 0 done, or interrupted while it watched, 2 no such run, 8 no stepwatchd answers.");
  verb->callback([=] { *exit_code = RunIncidents(*arguments); });
}

void AddAck(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<AckArguments>();
  CLI::App* verb = app->add_subcommand("ack", "Say that somebody sees to an incident");
  verb->add_option("INCIDENT", arguments->incident, "its id, or as much of its beginning as no other has")->required();
  verb->add_option("--note", arguments->note, "what is to be told to others");
  verb->add_option("--by", arguments->by, "who (default: this user)");
  verb->add_flag("--json", arguments->json, "the answer of stepwatchd, one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Example: stepwatch ack 1a2b --note \"node 7 is drained\"\n"
      "Exit codes: 0 done, 2 no such incident, or several, 5 this user may not, 8 no stepwatchd answers.");
  verb->callback([=] { *exit_code = RunAck(*arguments); });
}

void AddSilence(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<SilenceArguments>();
  CLI::App* verb = app->add_subcommand("silence", "Mark incidents to come as known for a while");
  verb->add_option("--run", arguments->run, "of this run: the beginning of its id, or a pattern with * (default: all)");
  verb->add_option("--kind", arguments->kind, "of this kind, such as straggler; may have * (default: all)");
  CLI::Option* span = verb->add_option_function<std::string>(
      "--for",
      [arguments](const std::string& text) {
        const auto seconds = ParseTimespan(text);
        if (!seconds)
          throw CLI::ValidationError("\"" + base::Printable(text) + "\" is no time; write for instance 90m, 2h or 3d");
        arguments->seconds = *seconds;
      },
      "how long: 90m, 2h, 3d");
  verb->add_option("--note", arguments->note, "why");
  verb->add_option("--by", arguments->by, "who (default: this user)");
  CLI::Option* list = verb->add_flag("--list", arguments->list, "the silences in force")->excludes(span);
  verb->add_option("--end", arguments->end, "end this one: the beginning of its id")->excludes(span)->excludes(list);
  verb->add_flag("--json", arguments->json, "the answer of stepwatchd, one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Incidents that match are opened all the same, and marked.\n"
      "Examples:\n  stepwatch silence --run 5f0c --kind straggler --for 2h --note \"slow node is known\"\n"
      "  stepwatch silence --list\n  stepwatch silence --end 9e1d\n"
      "Exit codes: 0 done, 2 no such kind or silence, 5 this user may not, or there are too many, 8 no stepwatchd\n"
      "answers.");
  verb->callback([=] { *exit_code = RunSilence(*arguments); });
}

void AddWhy(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<WhyArguments>();
  CLI::App* verb = app->add_subcommand("why", "Say what happened to a run, and where to look next");
  verb->add_option("RUN", arguments->run,
                   "the beginning of its id (default: the run with the worst incident that is open)");
  verb->add_flag("--stacks", arguments->stacks, "with the stacks that were collected, in full");
  verb->add_flag("--json", arguments->json, "one JSON object");
  AddSocket(verb, &arguments->stepwatchd);
  verb->footer(
      "Since when, which rank and layer first, what was changed just before, the evidence, and what to look at. What\n"
      "was changed is asked of the job while it runs on this machine, else read from its history in\n"
      "MONITOR_OUTPUT_DIR (./monitor_output).\n"
      "Examples:\n  stepwatch why\n  stepwatch why 5f0c --stacks\n"
      "Exit codes: 0 done, 2 no such run, or several, 8 no stepwatchd answers.");
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
