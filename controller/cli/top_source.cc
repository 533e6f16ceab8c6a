#include "controller/cli/top_source.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/cli/read_json.h"
#include "src/base/file.h"
#include "src/json/json.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::cli {
namespace {
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// More than a control socket gives the job for latest values: whoever leaves waits for at most that long.
constexpr milliseconds kTopAnswerTime{2000};

std::vector<std::string> Kinds() {
  std::vector<std::string> kinds;
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (!HasHeatmap(traits.kind)) kinds.emplace_back(traits.name);
  return kinds;
}

// Nothing: no answer that is an object.
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

// The first kind with values, from `begin` on in a ring; without any, that one.
size_t FindValues(const http::Client& client, const std::vector<std::string>& kinds, size_t begin, size_t by,
                  TopAnswers* answers) {
  for (size_t i = 0, at = begin; i < kinds.size(); ++i, at = (at + by) % kinds.size()) {
    answers->latest = FetchLatest(client, kinds[at], answers->status);
    if (!List(answers->latest, "values").empty()) return at;
  }
  answers->latest = Json::object();
  return begin;
}

// The cost is shown to those who look for it: it is no kind of sites.
void AskForKind(const http::Client& client, const TopKind& kind, TopAnswers* answers) {
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

}  // namespace

std::optional<TopAnswers> AskForTop(const control_socket::FoundJob& job, const TopKind& kind) {
  const http::Client client = control_socket::ClientOf(job);
  const Result<http::Reply> reply = client.Get("/v1/status", kTopAnswerTime);
  // One whose socket has vanished binds another.
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
  AskForKind(client, kind, &answers);
  return answers;
}

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
      answers = AskForTop(job_, kind);
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

// What was known before is shown while there is no answer.
void TopSource::Keep(std::optional<TopAnswers> answers, bool has_moved) {
  if (answers && !answers->trouble.empty() && answers_) {
    answers_->trouble = answers->trouble;
    return;
  }
  // Without a choice, the first kind with values is looked for until there is one.
  if (answers && (has_moved || !List(answers->latest, "values").empty())) kind_.name = answers->kind;
  answers_ = std::move(answers);
}

}  // namespace stepwatch::cli
