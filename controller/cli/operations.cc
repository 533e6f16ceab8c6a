// `stepwatch runs`, `incidents`, `ack` and `silence`, and the registration of `why`: the verbs that query stepwatchd.
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/stop_on_signals.h"
#include "controller/cli/text/incident_text.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "controller/cli/why.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

struct RunsArguments {
  bool json = false;
  bool all = false;  // include runs that ended and have no open incident
  std::string stepwatchd;
};

int RunRuns(const RunsArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  Result<Json> answer = client.value().Get("/v1/runs");
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  const Json& listed = List(answer.value(), "runs");
  const std::vector<Json> all(listed.begin(), listed.end());
  std::vector<Json> runs;
  for (const Json& run : all)
    if (arguments.all || IsOfInterest(run)) runs.push_back(run);
  if (arguments.json) {
    Json shown = std::move(answer).value();
    shown["runs"] = runs;
    PrintObject(shown);
    return kExitDone;
  }
  if (!runs.empty()) base::Print(stdout, "%s", RunsText(runs, all, WallSeconds()).c_str());
  if (all.empty()) base::Print(stderr, "stepwatch: stepwatchd at %s has no runs\n", client.value().socket().c_str());
  if (const size_t hidden = all.size() - runs.size(); hidden > 0)
    base::Print(stderr, "note: %zu ended run%s hidden; --all shows all runs\n", hidden, hidden == 1 ? "" : "s");
  return kExitDone;
}

constexpr int kRetryMilliseconds = 250;

// Prints a line for each open incident, then one for each change, until SIGINT or SIGTERM. If stepwatchd goes away,
// waits for it; the missed changes follow, and a line `gap` reports changes that stepwatchd no longer keeps.
class IncidentsWatch {
 public:
  IncidentsWatch(const StepwatchdClient& client, std::string run, bool as_json)
      : client_(client), run_(std::move(run)), as_json_(as_json) {}

  int Run() {
    const StopOnSignals signals;
    if (const Status begun = Begin(); !begun.ok()) return FailOperations(begun, as_json_);
    while (Goes()) {
      const Status followed = client_.server().Follow(
          last_, [this](const std::string& name, const std::string& data) { return OnEvent(name, data); },
          [this] { return Goes(); });
      if (Goes()) AwaitAnswer(followed);
    }
    return kExitDone;
  }

 private:
  bool Goes() const { return interrupted == 0 && is_read_ && !OutputIsClosed(); }

  // Prints the open incidents and finds the number of the change from which to follow.
  Status Begin() {
    const Result<Json> answer = client_.Get("/v1/incidents?limit=2000");
    if (!answer.ok()) return answer.status();
    last_ = Count(answer.value(), "number");
    const Json& list = List(answer.value(), "incidents");
    std::vector<Json> open(list.begin(), list.end());
    std::reverse(open.begin(), open.end());  // the last changed one is last
    for (const Json& incident : open) {
      Json shown = {{"version", http::kAnswerVersion}};
      if (incident.is_object()) shown.update(incident);
      shown["change"] = "open";
      PrintChange("open", shown);
    }
    return Status();
  }

  void PrintChange(const std::string& change, const Json& incident) {
    if (!run_.empty() && RawText(incident, "run") != run_) return;
    is_read_ = is_read_ && PrintAtOnce((as_json_ ? json::Dump(incident) : ChangeLine(change, incident)) + "\n");
  }

  void PrintGap() {
    is_read_ =
        is_read_ && PrintAtOnce(as_json_ ? "{\"version\":1,\"change\":\"gap\"}\n"
                                         : "gap: stepwatchd no longer keeps some changes; `stepwatch incidents --all` "
                                           "shows the present state\n");
  }

  bool OnEvent(const std::string& name, const std::string& data) {
    const Result<Json> event = json::Parse(data);
    if (!event.ok() || !event.value().is_object()) return false;  // the stream restarts after a pause
    if (name == "gap") {
      PrintGap();
      return Goes();
    }
    last_ = std::max(last_, Count(event.value(), "number"));
    PrintChange(name, event.value());
    return Goes();
  }

  // Waits for the next answer, which may come from another process with another store.
  void AwaitAnswer(const Status& why) {
    base::Print(stderr, "note: stepwatchd ended the stream%s%s; reconnecting\n", why.ok() ? "" : ": ",
                why.ok() ? "" : why.message().c_str());
    while (Goes()) {
      const Result<Json> answer = client_.Get("/v1/incidents?limit=1");
      if (!answer.ok()) {
        (void)::poll(nullptr, 0, kRetryMilliseconds);
        continue;
      }
      base::Print(stderr, "note: reconnected to stepwatchd\n");
      if (Count(answer.value(), "number") >= last_) return;
      PrintGap();
      last_ = 0;
      return;
    }
  }

  const StepwatchdClient& client_;
  const std::string run_;
  const bool as_json_;
  uint64_t last_ = 0;
  bool is_read_ = true;
};

constexpr int64_t kDeliveriesMax = 1000;

struct IncidentsArguments {
  std::string run;  // a prefix of its id; empty: all
  bool all = false;
  bool watch = false;
  bool delivered = false;  // messages instead
  bool json = false;
  int64_t limit = 100;
  std::string stepwatchd;
};

// Messages to receivers: those that wait, those given up, and the last ones sent.
int ShowDeliveries(const StepwatchdClient& client, const std::string& run, const IncidentsArguments& arguments) {
  Result<Json> answer = client.Get(fmt::format("/v1/deliveries?limit={}", std::min(arguments.limit, kDeliveriesMax)));
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  std::vector<Json> shown;
  for (const char* name : {"dead_letters", "waiting", "sent"}) {
    std::vector<Json> kept;
    for (const Json& each : List(answer.value(), name))
      if (run.empty() || RawText(each, "run") == run) kept.push_back(each);
    shown.insert(shown.end(), kept.begin(), kept.end());
    answer.value()[name] = std::move(kept);
  }
  if (arguments.json) {
    PrintObject(answer.value());
    return kExitDone;
  }
  const Json& receivers = List(answer.value(), "receivers");
  if (receivers.empty())
    base::Print(stderr, "stepwatch: the settings of stepwatchd have no receivers (delivery.receivers)\n");
  else
    base::Print(stdout, "%s", ReceiversText(std::vector<Json>(receivers.begin(), receivers.end())).c_str());
  if (!shown.empty()) base::Print(stdout, "\n%s", DeliveriesText(shown).c_str());
  return kExitDone;
}

int RunIncidents(const IncidentsArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  std::string run;
  if (!arguments.run.empty()) {
    const Result<std::string> known = ResolveRun(client.value(), arguments.run);
    const bool may_come = arguments.watch && known.status().code() == StatusCode::kNotFound;
    if (!known.ok() && !may_come) return FailOperations(known.status(), arguments.json);
    run = known.ok() ? known.value() : arguments.run;
    if (!known.ok()) base::Print(stderr, "note: %s; it may come\n", known.status().message().c_str());
  }
  if (arguments.watch) return IncidentsWatch(client.value(), run, arguments.json).Run();
  if (arguments.delivered) return ShowDeliveries(client.value(), run, arguments);
  const Result<Json> answer = client.value().Get(fmt::format(
      "/v1/incidents?state={}&limit={}&run={}", arguments.all ? "all" : "open", arguments.limit, UrlPiece(run)));
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  if (arguments.json) {
    PrintObject(answer.value());
    return kExitDone;
  }
  const Json& list = List(answer.value(), "incidents");
  if (list.empty())
    base::Print(stderr, "stepwatch: no incident %s%s\n", arguments.all ? "is known" : "is open",
                run.empty() ? "" : " of this run");
  else
    base::Print(stdout, "%s", IncidentsText(std::vector<Json>(list.begin(), list.end()), WallSeconds()).c_str());
  if (list.size() == static_cast<size_t>(arguments.limit))
    base::Print(stderr, "note: there may be more; --limit shows them\n");
  return kExitDone;
}

struct AckArguments {
  std::string incident;  // a prefix of its id
  std::string note;
  std::string by;  // empty: the name of this user
  bool json = false;
  std::string stepwatchd;
};

struct SilenceArguments {
  std::string run;  // may have *; empty: all
  std::string kind;
  int64_t seconds = -1;  // negative: not given
  std::string note;
  std::string by;
  bool list = false;
  std::string end;  // a prefix of the id of a silence
  bool json = false;
  std::string stepwatchd;
};

std::string ThisUser() {
  const uid_t uid = ::geteuid();
  char room[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, room, sizeof room, &found) == 0 && found != nullptr) return found->pw_name;
  return "uid " + std::to_string(uid);
}

std::string NameOr(const std::string& by) {
  return by.empty() ? ThisUser() : by;
}

std::string OrAll(const std::string& text) {
  return text.empty() ? "*" : text;
}

std::string SilencesText(const Json& list, double now) {
  std::vector<std::vector<Cell>> rows = {HeadingRow({"ID", "RUN", "KIND", "LEFT", "BY", "NOTE"})};
  for (const Json& each : list) {
    const std::string by = Text(each, "by"), note = Text(each, "note");
    rows.push_back({{Text(each, "id")},
                    {OrAll(Text(each, "run"))},
                    {OrAll(Text(each, "kind"))},
                    {DurationText(Number(each, "until_t", now) - now)},
                    {by.empty() ? "-" : by},
                    {note.empty() ? "-" : note}});
  }
  return TableText(rows);
}

int ListSilences(const StepwatchdClient& client, bool as_json) {
  const Result<Json> answer = client.Get("/v1/silences");
  if (!answer.ok()) return FailOperations(answer.status(), as_json);
  const Json& list = List(answer.value(), "silences");
  if (as_json)
    PrintObject(answer.value());
  else if (list.empty())
    base::Print(stderr, "stepwatch: no active silence\n");
  else
    base::Print(stdout, "%s", SilencesText(list, WallSeconds()).c_str());
  return kExitDone;
}

int EndSilence(const StepwatchdClient& client, const SilenceArguments& arguments) {
  const Result<Json> answer = client.Get("/v1/silences");
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  std::vector<KnownId> known;
  for (const Json& each : List(answer.value(), "silences"))
    known.emplace_back(Text(each, "id"), OrAll(Text(each, "kind")) + " in " + OrAll(Text(each, "run")));
  const Result<std::string> id = ResolveId(arguments.end, known, "silence");
  if (!id.ok()) return FailOperations(id.status(), arguments.json);
  const Result<Json> removed = client.Ask("DELETE", "/v1/silences/" + UrlPiece(id.value()));
  if (!removed.ok()) return FailOperations(removed.status(), arguments.json);
  if (arguments.json)
    PrintObject(removed.value());
  else
    base::Print(stdout, "silence %s ended\n", id.value().c_str());
  return kExitDone;
}

// A prefix of the id of one run selects that run; a text that matches no run may name a future one.
Result<std::string> RunPattern(const StepwatchdClient& client, const std::string& run) {
  if (run.empty() || run.find('*') != std::string::npos) return run;
  Result<std::string> known = ResolveRun(client, run);
  if (known.ok() || known.status().code() != StatusCode::kNotFound) return known;
  base::Print(stderr, "note: %s; the silence applies to a run with exactly this name\n",
              known.status().message().c_str());
  return run;
}

int CreateSilence(const StepwatchdClient& client, const SilenceArguments& arguments) {
  const Result<std::string> run = RunPattern(client, arguments.run);
  if (!run.ok()) return FailOperations(run.status(), arguments.json);
  const Json body = {{"run", run.value()},
                     {"kind", arguments.kind},
                     {"seconds", arguments.seconds},
                     {"by", NameOr(arguments.by)},
                     {"note", arguments.note}};
  const Result<Json> answer = client.Ask("POST", "/v1/silences", json::Dump(body));
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  const Json& silence = Part(answer.value(), "silence");
  if (arguments.json)
    PrintObject(answer.value());
  else
    base::Print(stdout, "silence %s: %s in %s, until %s\n", Text(silence, "id").c_str(),
                OrAll(Text(silence, "kind")).c_str(), OrAll(Text(silence, "run")).c_str(),
                LocalTimeText(Number(silence, "until_t")).c_str());
  return kExitDone;
}

int RunAck(const AckArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  const Result<std::string> id = ResolveIncident(client.value(), arguments.incident);
  if (!id.ok()) return FailOperations(id.status(), arguments.json);
  const Json body = {{"by", NameOr(arguments.by)}, {"note", arguments.note}};
  const Result<Json> answer =
      client.value().Ask("POST", "/v1/incidents/" + UrlPiece(id.value()) + "/ack", json::Dump(body));
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  if (arguments.json)
    PrintObject(answer.value());
  else
    base::Print(stdout, "%s\n", ChangeLine("acknowledged", Part(answer.value(), "incident")).c_str());
  return kExitDone;
}

int RunSilence(const SilenceArguments& arguments) {
  const bool adds = arguments.seconds >= 0;
  if (static_cast<int>(adds) + static_cast<int>(arguments.list) + static_cast<int>(!arguments.end.empty()) != 1)
    return FailInvalid(
        Status(StatusCode::kInvalid, "one of --for 2h (starts a silence), --list or --end ID is required"),
        arguments.json);
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  if (arguments.list) return ListSilences(client.value(), arguments.json);
  return adds ? CreateSilence(client.value(), arguments) : EndSilence(client.value(), arguments);
}

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
  verb->add_flag("--delivered", arguments->delivered, "show the messages about incidents and their receivers instead")
      ->excludes(watch);
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
      "  stepwatch incidents --watch --json\n  stepwatch incidents --delivered\n"
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
  CLI::App* verb = app->add_subcommand("silence", "Mark incidents as known for a while; they still open");
  verb->add_option("--run", arguments->run,
                   "only incidents of this run: a prefix of its id, or a pattern with * (default: all)");
  verb->add_option("--kind", arguments->kind,
                   "only incidents of this kind, such as straggler; may contain * (default: all)");
  CLI::Option* span = verb->add_option_function<std::string>(
      "--for",
      [arguments](const std::string& text) {
        const auto seconds = ParseDuration(text);
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
      "Prints the last good step, the first rank and layer, the changes just before, the evidence, and where to look.\n"
      "The changes come from the job while it runs on this machine, else from its history in MONITOR_OUTPUT_DIR\n"
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
