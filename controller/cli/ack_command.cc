#include "controller/cli/ack_command.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/duration.h"
#include "controller/cli/id_prefix.h"
#include "controller/cli/incident_text.h"
#include "controller/cli/meant_ids.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/text_table.h"
#include "controller/cli/wall_clock.h"
#include "src/base/print.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

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
  std::vector<std::vector<Cell>> rows(1);
  for (const char* name : {"ID", "RUN", "KIND", "LEFT", "BY", "NOTE"}) rows[0].push_back({name, Colour::kBold});
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
  const Result<std::string> id = MeantId(arguments.end, known, "silence");
  if (!id.ok()) return FailOperations(id.status(), arguments.json);
  const Result<Json> removed = client.Ask("DELETE", "/v1/silences/" + UrlPiece(id.value()));
  if (!removed.ok()) return FailOperations(removed.status(), arguments.json);
  if (arguments.json)
    PrintObject(removed.value());
  else
    base::Print(stdout, "silence %s ended\n", id.value().c_str());
  return kExitDone;
}

// The beginning of an id that one run has means that run; what none has may be a run to come.
Result<std::string> RunPattern(const StepwatchdClient& client, const std::string& run) {
  if (run.empty() || run.find('*') != std::string::npos) return run;
  Result<std::string> meant = MeantRun(client, run);
  if (meant.ok() || meant.status().code() != StatusCode::kNotFound) return meant;
  base::Print(stderr, "note: %s; the silence applies to a run with exactly this name\n",
              meant.status().message().c_str());
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

}  // namespace

int RunAck(const AckArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  const Result<std::string> id = MeantIncident(client.value(), arguments.incident);
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

}  // namespace stepwatch::cli
