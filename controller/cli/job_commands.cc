#include "controller/cli/job_commands.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/job_groups.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/ranks_commands.h"
#include "controller/cli/read_json.h"
#include "controller/cli/status_text.h"
#include "controller/cli/text_table.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

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

}  // namespace

int RunPs(const PsArguments& arguments) {
  const std::vector<control_socket::FoundJob> jobs = AllJobs();
  if (arguments.json)
    (void)PrintAtOnce(json::Dump(PsJson(jobs)) + "\n");
  else if (!jobs.empty())
    (void)PrintAtOnce(PsText(jobs));
  else
    base::Print(stderr, "stepwatch: no running job of this user was found here%s\n", WhereLooked().c_str());
  for (const control_socket::FoundJob& job : jobs)
    if (job.status.empty()) return kExitDegraded;
  return kExitDone;
}

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
    const bool is_printed = arguments.watch && !arguments.json ? PrintPicture(text) : PrintAtOnce(text);
    if (!is_printed || !arguments.watch) return IsDegraded(status.value()) ? kExitDegraded : kExitDone;
    std::this_thread::sleep_for(kWatchRefresh);
  }
}

// A reader that was cut off comes again; a control socket that is shut then is the end of the job.
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

}  // namespace stepwatch::cli
