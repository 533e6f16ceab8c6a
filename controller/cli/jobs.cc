// `stepwatch ps`, `status` and `events`: query running jobs through their control sockets
// (docs/formats/control_api.md).
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/ranks.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/status_text.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/verbs.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

struct PsArguments {
  bool json = false;
};

struct StatusArguments {
  std::string job;  // a JOB argument of FindJob
  bool json = false;
  bool watch = false;
  bool ranks = false;  // all ranks of the job instead of this one
};

struct EventsArguments {
  std::string job;
  bool json = false;
};

constexpr int kEndsWithoutEventMax = 5;
constexpr std::chrono::milliseconds kFollowAgain{50};

Json PsJson(const std::vector<control_socket::FoundJob>& jobs) {
  Json list = Json::array();
  for (const control_socket::FoundJob& job : jobs) {
    Json entry = {{"job", job.name}, {"pid", job.pid}, {"uid", job.uid}, {"socket", job.path}};
    const Result<Json> status = json::Parse(job.status);
    if (status.ok())
      entry["status"] = status.value();
    else
      entry["error"] = job.why.empty() ? "its answer " + status.status().message() : job.why;
    list.push_back(entry);
  }
  Json runs = Json::array();
  for (const JobGroup& group : GroupByRun(jobs)) {
    if (group.run_id.empty()) continue;
    Json ranks = Json::array(), names = Json::array();
    for (const control_socket::FoundJob& job : group.jobs) {
      ranks.push_back(RunRankOf(job).rank);
      names.push_back(job.name);
    }
    runs.push_back({{"run_id", group.run_id}, {"world_size", group.world_size}, {"ranks", ranks}, {"jobs", names}});
  }
  return {{"version", http::kAnswerVersion}, {"jobs", list}, {"runs", runs}};
}

Result<Json> FetchStatus(const control_socket::FoundJob& job) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Get("/v1/status");
  if (!reply.ok()) return reply.status();
  Result<Json> status = json::Parse(reply.value().body);
  if (reply.value().status != 200 || !status.ok() || !status.value().is_object())
    return Status(StatusCode::kUnavailable,
                  job.path + " returned status " + std::to_string(reply.value().status) + " without a JSON object");
  return status;
}

// 0: printed, also without a job; 5: a job was found that did not answer.
int RunPs(const PsArguments& arguments) {
  const std::vector<control_socket::FoundJob> jobs = AllJobs();
  if (arguments.json)
    (void)PrintAtOnce(json::Dump(PsJson(jobs)) + "\n");
  else if (!jobs.empty())
    (void)PrintAtOnce(PsText(jobs));
  else
    base::Print(stderr, "stepwatch: no running job of this user was found here%s\n", SearchedText().c_str());
  for (const control_socket::FoundJob& job : jobs)
    if (job.status.empty()) return kExitDegraded;
  return kExitDone;
}

// 0: printed; 2: ambiguous JOB; 5: printed, and the newest edit is not applied; 6: no such job, or it does not answer.
int RunStatus(const StatusArguments& arguments) {
  if (arguments.ranks) return RunRanks({arguments.job, arguments.json, arguments.watch});
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  const uid_t uid = job.value().uid;
  const std::string name = job.value().name + (uid == ::geteuid() ? "" : " of uid " + std::to_string(uid));
  for (;;) {
    const Result<Json> status = FetchStatus(job.value());
    if (!status.ok()) return NoJob(Status(StatusCode::kUnavailable, status.status().message()), arguments.json);
    const std::string text = arguments.json ? json::Dump(status.value()) + "\n" : StatusText(name, status.value());
    const bool is_printed = arguments.watch && !arguments.json ? PrintScreen(text) : PrintAtOnce(text);
    if (!is_printed || !arguments.watch) return IsDegraded(status.value()) ? kExitDegraded : kExitDone;
    std::this_thread::sleep_for(kWatchRefresh);
  }
}

// Prints events until the job ends: 0; 2 and 6 as above. Reconnects after the stream ends; a control socket that is
// then closed is the end of the job.
int RunEvents(const EventsArguments& arguments) {
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  const http::Client client = control_socket::ClientOf(job.value());
  uint64_t last = 0;
  bool is_read = true, is_garbled = false;
  int ends_without_event = 0;  // in a row
  const auto print = [&](const std::string& name, const std::string& data) {
    const Result<Json> event = json::Parse(data);
    if (!event.ok() || !event.value().is_object()) return !(is_garbled = true);
    if (const uint64_t id = Count(event.value(), "id"); id > last) last = id, ends_without_event = 0;
    return is_read = PrintAtOnce((arguments.json ? data : EventLine(name, event.value())) + "\n");
  };
  const auto goes_on = [&] { return is_read = is_read && !OutputIsClosed(); };
  Status followed = client.Follow(0, print, goes_on);
  if (!followed.ok()) return NoJob(Status(StatusCode::kUnavailable, followed.message()), arguments.json);
  while (is_read && followed.ok() && !is_garbled && ++ends_without_event <= kEndsWithoutEventMax) {
    std::this_thread::sleep_for(kFollowAgain);
    followed = client.Follow(last, print, goes_on);
  }
  const bool is_strange = followed.code() == StatusCode::kInvalid || followed.code() == StatusCode::kTimedOut;
  if (!is_read || (!followed.ok() && !is_strange)) return kExitDone;
  const std::string why = !followed.ok() ? followed.message()
                          : is_garbled   ? job.value().path + " sends events that are not JSON objects"
                                         : job.value().path + " keeps ending the stream without a new event";
  return NoJob(Status(StatusCode::kUnavailable, why), arguments.json);
}

}  // namespace

void AddJobVerbs(CLI::App* app, int* exit_code) {
  const auto ps = std::make_shared<PsArguments>();
  const auto status = std::make_shared<StatusArguments>();
  const auto events = std::make_shared<EventsArguments>();
  CLI::App* list = app->add_subcommand("ps", "List the running jobs of this user on this machine");
  list->add_flag("--json", ps->json, "one JSON object instead of a table");
  list->callback([=] { *exit_code = RunPs(*ps); });
  CLI::App* show = app->add_subcommand("status", "Show the state of a running job and of its config file");
  show->add_option("JOB", status->job, kJobHelp);
  show->add_flag("--json", status->json, "one JSON object instead of lines");
  show->add_flag("--watch", status->watch, "refresh every second until interrupted");
  show->add_flag("--ranks", status->ranks, "show the state of each rank, queried through the job's store");
  show->callback([=] { *exit_code = RunStatus(*status); });
  CLI::App* follow = app->add_subcommand("events", "Stream events of a running job, starting with recent ones");
  follow->add_option("JOB", events->job, kJobHelp);
  follow->add_flag("--json", events->json, "one JSON object for each event");
  follow->callback([=] { *exit_code = RunEvents(*events); });
}

}  // namespace stepwatch::cli
