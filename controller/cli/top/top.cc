// `stepwatch top`: the latest values of a running job, live.
#include <sys/eventfd.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/top/keys.h"
#include "controller/cli/top/terminal.h"
#include "controller/cli/top/view.h"
#include "controller/cli/verbs.h"
#include "controller/control_socket/find_jobs.h"
#include "src/base/file.h"
#include "src/base/mutex.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::cli {
namespace {
using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct TopArguments {
  std::string job;   // a JOB argument of FindJob
  std::string kind;  // of sites; empty: the first one with values
  TopChoice choice;
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

// The kind of sites that is requested.
struct TopKind {
  std::string name;  // empty: the first one with values
  int steps = 0;     // moves on by this many kinds with values; below 0: back
};

// Longer than a control socket waits for latest values; `top` takes at most this long to end.
constexpr milliseconds kTopAnswerTime{2000};

std::vector<std::string> Kinds() {
  std::vector<std::string> kinds;
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (!HasHeatmap(traits.kind)) kinds.emplace_back(traits.name);
  return kinds;
}

// No value: no answer, or not an object.
std::optional<Json> Get(const http::Client& client, const std::string& target) {
  const Result<http::Reply> reply = client.Get(target, kTopAnswerTime);
  if (!reply.ok() || reply.value().status != 200) return std::nullopt;
  Result<Json> answer = json::Parse(reply.value().body);
  if (!answer.ok() || !answer.value().is_object()) return std::nullopt;
  return std::move(answer).value();
}

Json FetchLatest(const http::Client& client, const std::string& kind, const Json& status) {
  if (kind == kCostKind) return CostAsLatest(status);
  return Get(client, "/v1/latest/" + kind).value_or(Json::object());
}

// The first kind with values from `begin` on, in a ring; `begin` if no kind has values.
size_t FindValues(const http::Client& client, const std::vector<std::string>& kinds, size_t begin, size_t by,
                  TopAnswers* answers) {
  for (size_t i = 0, at = begin; i < kinds.size(); ++i, at = (at + by) % kinds.size()) {
    answers->latest = FetchLatest(client, kinds[at], answers->status);
    if (!List(answers->latest, "values").empty()) return at;
  }
  answers->latest = Json::object();
  return begin;
}

// The cost is not a kind of sites: it appears only on request.
void FetchKind(const http::Client& client, const TopKind& kind, TopAnswers* answers) {
  std::vector<std::string> kinds = Kinds();
  if (kind.steps != 0 || kind.name == kCostKind) kinds.emplace_back(kCostKind);
  const auto found = std::find(kinds.begin(), kinds.end(), kind.name);
  const bool is_chosen = found != kinds.end();
  auto at = is_chosen ? static_cast<size_t>(found - kinds.begin()) : 0;
  const size_t by = kind.steps < 0 ? kinds.size() - 1 : 1;
  if (kind.steps == 0 && is_chosen) answers->latest = FetchLatest(client, kinds[at], answers->status);
  if (kind.steps == 0 && !is_chosen) at = FindValues(client, kinds, 0, 1, answers);
  for (int i = 0; i < std::abs(kind.steps); ++i) at = FindValues(client, kinds, (at + by) % kinds.size(), by, answers);
  answers->kind = kinds[at];
}

// Sends one request. No value: the job has ended.
std::optional<TopAnswers> FetchTop(const control_socket::FoundJob& job, const TopKind& kind) {
  const http::Client client = control_socket::ClientOf(job);
  const Result<http::Reply> reply = client.Get("/v1/status", kTopAnswerTime);
  // A job whose socket file was removed creates it again.
  const bool is_shut = !reply.ok() && reply.status().code() != StatusCode::kTimedOut;
  if (is_shut && control_socket::IsDead(job.pid)) return std::nullopt;
  TopAnswers answers;
  answers.job = job.name;
  const Result<Json> status = json::Parse(reply.ok() ? reply.value().body : "");
  if (!reply.ok() || reply.value().status != 200 || !status.ok() || !status.value().is_object()) {
    answers.trouble = reply.ok() ? "the job returned an invalid status"
                      : is_shut  ? "the control socket of the job is closed; retrying"
                                 : "the job does not respond; retrying";
    return answers;
  }
  answers.status = status.value();
  answers.ranks = Get(client, "/v1/ranks").value_or(Json::object());
  FetchKind(client, kind, &answers);
  return answers;
}

// Queries the job repeatedly, on a thread of its own.
class TopSource {
 public:
  TopSource(const control_socket::FoundJob& job, const std::string& kind, std::chrono::milliseconds interval);
  ~TopSource();
  TopSource(const TopSource&) = delete;
  TopSource& operator=(const TopSource&) = delete;

  // Becomes readable when there are new answers.
  int wake_up() const { return wake_up_.get(); }
  // The newest answer; no value: the job has ended.
  std::optional<TopAnswers> Answers();
  // Requests the next kind with values, or the one before, now.
  void Move(int steps);

 private:
  void Run();
  void Keep(std::optional<TopAnswers> answers, bool has_moved) STEPWATCH_REQUIRES(mutex_);

  const control_socket::FoundJob job_;
  const std::chrono::milliseconds interval_;
  base::UniqueFd wake_up_;
  base::Mutex mutex_;
  base::Condition asked_;
  TopKind kind_ STEPWATCH_GUARDED_BY(mutex_);
  std::optional<TopAnswers> answers_ STEPWATCH_GUARDED_BY(mutex_);
  bool asks_now_ STEPWATCH_GUARDED_BY(mutex_) = false;
  bool ends_ STEPWATCH_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TopSource::TopSource(const control_socket::FoundJob& job, const std::string& kind, milliseconds interval)
    : job_(job), interval_(interval), wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), kind_{kind, 0} {
  if (!wake_up_.valid()) throw std::system_error(errno, std::generic_category(), "no file descriptor for responses");
  answers_ = TopAnswers{.job = job.name, .status = {}, .ranks = {}, .kind = kind, .latest = {}, .trouble = "asking"};
  thread_ = std::thread([this] { Run(); });
}

TopSource::~TopSource() {
  {
    const base::MutexLock lock(&mutex_);
    ends_ = true;
    asked_.NotifyAll();
  }
  thread_.join();
}

std::optional<TopAnswers> TopSource::Answers() {
  const base::MutexLock lock(&mutex_);
  return answers_;
}

void TopSource::Move(int steps) {
  const base::MutexLock lock(&mutex_);
  kind_.steps += steps;
  asks_now_ = true;
  asked_.NotifyAll();
}

void TopSource::Run() {
  for (;;) {
    TopKind kind;
    {
      const base::MutexLock lock(&mutex_);
      kind = std::exchange(kind_, {kind_.name, 0});
      asks_now_ = false;
    }
    std::optional<TopAnswers> answers;
    try {
      answers = FetchTop(job_, kind);
    } catch (const std::exception& error) {  // no memory for an answer
      answers = TopAnswers{
          .job = job_.name, .status = {}, .ranks = {}, .kind = kind.name, .latest = {}, .trouble = error.what()};
    }
    const bool has_ended = !answers;
    const base::MutexLock lock(&mutex_);
    Keep(std::move(answers), kind.steps != 0);
    (void)::eventfd_write(wake_up_.get(), 1);
    const auto next = steady_clock::now() + interval_;
    if (has_ended) return;
    while (!ends_ && !asks_now_ && asked_.WaitUntil(&mutex_, next)) {
    }
    if (ends_) return;
  }
}

// Without an answer the last one stays.
void TopSource::Keep(std::optional<TopAnswers> answers, bool has_moved) {
  if (answers && !answers->trouble.empty() && answers_) {
    answers_->trouble = answers->trouble;
    return;
  }
  // Without a choice, searches for the first kind with values until there is one.
  if (answers && (has_moved || !List(answers->latest, "values").empty())) kind_.name = answers->kind;
  answers_ = std::move(answers);
}

// A job keeps its latest values from the first request on, so the first answer of a collecting job has none.
constexpr std::chrono::seconds kFirstValues{2};
constexpr std::chrono::milliseconds kAskAgain{50};

int HasEnded(const std::string& job, bool as_json) {
  return NoJob(Status(StatusCode::kUnavailable, "job " + job + " has ended, or does not answer any more"), as_json);
}

Json SnapshotJson(const TopAnswers& answers) {
  return {{"version", http::kAnswerVersion}, {"job", answers.job},   {"status", answers.status},
          {"ranks", answers.ranks},          {"kind", answers.kind}, {"values", List(answers.latest, "values")}};
}

int PrintOnce(const TopArguments& arguments, const control_socket::FoundJob& job) {
  const auto end = steady_clock::now() + kFirstValues;
  std::optional<TopAnswers> answers = FetchTop(job, {arguments.kind, 0});
  while (answers && List(answers->latest, "values").empty() && Whole(answers->status, "plan_id") > 0 &&
         steady_clock::now() < end) {
    std::this_thread::sleep_for(kAskAgain);
    answers = FetchTop(job, {arguments.kind, 0});
  }
  if (!answers) return HasEnded(job.name, arguments.json);
  if (!answers->trouble.empty()) return NoJob(Status(StatusCode::kUnavailable, answers->trouble), arguments.json);
  if (arguments.json) {
    base::Print(stdout, "%s\n", json::Dump(SnapshotJson(*answers)).c_str());
  } else {
    for (const std::string& line : TopLinesOfAll(*answers, arguments.choice)) base::Print(stdout, "%s\n", line.c_str());
  }
  return kExitDone;
}

int RunLive(const TopArguments& arguments, const control_socket::FoundJob& job) {
  Terminal terminal;
  const auto interval = std::chrono::duration<double>(arguments.interval_seconds);
  TopSource source(job, arguments.kind, std::chrono::ceil<std::chrono::milliseconds>(interval));
  TopChoice choice = arguments.choice;
  for (;;) {
    const std::optional<TopAnswers> answers = source.Answers();
    if (!answers) break;
    const TopSize size = terminal.Size();
    terminal.Show(TopLines(*answers, choice, size));
    const Terminal::Input input = terminal.Wait(source.wake_up());
    if (input.ends) return kExitInterrupted;
    const TopTable table = TableOf(answers->latest);
    for (const TopPress& press : PressesIn(input.bytes)) {
      switch (Press(press, table, TopPage(*answers, size), &choice)) {
        case TopWish::kQuit: return kExitDone;
        case TopWish::kNextKind: source.Move(1); break;
        case TopWish::kPreviousKind: source.Move(-1); break;
        case TopWish::kNone: break;
      }
    }
  }
  return kExitUnreachable;
}

// 0: ended by the user, or printed once; 2: ambiguous JOB; 6: no such job, or it has ended; 130: interrupted.
int RunTop(const TopArguments& arguments) {
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  if (arguments.once || arguments.json || !CanTakeTerminal()) return PrintOnce(arguments, job.value());
  const int exit_code = RunLive(arguments, job.value());
  // Prints to the screen from before.
  return exit_code == kExitUnreachable ? HasEnded(job.value().name, arguments.json) : exit_code;
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const SiteKindTraits& traits : kSiteKindTraits) names.emplace_back(traits.name);
  names.emplace_back(kCostKind);
  return names;
}

}  // namespace

void AddTop(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<TopArguments>();
  CLI::App* verb = app->add_subcommand("top", "Show the latest values of a running job, live");
  verb->add_option("JOB", arguments->job, kJobHelp);
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

}  // namespace stepwatch::cli
