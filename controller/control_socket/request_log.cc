#include "controller/control_socket/request_log.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <utility>

#include "controller/control_socket/perform.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {
namespace {

constexpr size_t kIdBytesMax = 200;
constexpr const char* kTooMany = "too many changes are under way; try again";

// Ensures that `then` is called once, even if the code that should answer is destroyed without an answer.
class Promise {
 public:
  explicit Promise(OnAnswer then) : then_(std::move(then)) {}
  ~Promise() {
    if (is_kept_) return;
    try {
      then_(http::Busy(
          "the request was dropped without an answer, for instance because the monitor ends; read the config file"));
    } catch (...) {  // no memory for an answer: the client sees the connection close
    }
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  void Keep(const http::Answer& answer) {
    if (!is_kept_.exchange(true)) then_(answer);
  }

 private:
  const OnAnswer then_;
  std::atomic<bool> is_kept_{false};
};

OnAnswer Promised(OnAnswer then) {
  return [promise = std::make_shared<Promise>(std::move(then))](const http::Answer& answer) { promise->Keep(answer); };
}

// Catches the exceptions of the job.
void Begin(const Route& route, const Request& request, Job& job, const OnAnswer& then) try {
  if (route.way != Route::Way::kLater) return then(AnswerNow(route, request, job));
  route.begin(request, job, then);
} catch (const std::exception& error) {
  then(http::Busy(std::string("cannot begin the request: ") + error.what()));
} catch (...) {
  then(http::Busy("cannot begin the request"));
}

// Covers all parts of a request. The encoding is unambiguous: the first three parts contain no line feed.
std::string DigestOf(const Route& route, const Request& request) {
  return base::Sha256Hex(std::string(route.method) + " " + route.path + " " + base::Joined(request.parameters, "/") +
                         "\n" + request.query + "\n" + request.if_match + "\n" + request.body);
}

}  // namespace

std::optional<http::Answer> WhyNot(const Route& route, const Request& request) {
  if (!route.changes) return std::nullopt;
  if (request.from_rank < 0 && request.access != sockets::Access::kAll)
    return http::Forbidden("only uid " + std::to_string(::geteuid()) + " and root may change what this job does");
  if (request.request_id.size() > kIdBytesMax)
    return http::BadRequest("an Idempotency-Key may have at most " + std::to_string(kIdBytesMax) + " bytes");
  return std::nullopt;
}

bool RequestLog::IsBegun(const std::string& id, const std::string& digest, const OnAnswer& then, bool is_urgent,
                         http::Answer* answer) {
  const base::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    if (is_urgent || !IsFull()) {
      entries_[id] = Entry{digest, false, {}, {then}};
      return false;
    }
    *answer = http::Busy(kTooMany);
  } else if (found->second.digest != digest) {
    *answer = http::ErrorAnswer(422, "request_id_reused",
                                "another request has used this Idempotency-Key; use a new one for each request");
  } else if (found->second.is_answered) {
    *answer = found->second.answer;
  } else {
    found->second.waiting.push_back(then);
  }
  return true;
}

void RequestLog::Perform(const std::string& id, const std::string& digest, OnAnswer then,
                         const std::function<void(OnAnswer)>& begin, bool is_urgent) {
  http::Answer answer;
  answer.status = 0;
  if (IsBegun(id, digest, then, is_urgent, &answer)) {
    if (answer.status != 0) then(answer);
    return;
  }
  begin(Promised(
      [log = shared_from_this(), under_way = under_way_, id](const http::Answer& given) { log->Finish(id, given); }));
}

void RequestLog::Perform(OnAnswer then, const std::function<void(OnAnswer)>& begin, bool is_urgent) {
  if (!is_urgent && IsFull()) return then(http::Busy(kTooMany));
  begin(Promised([under_way = under_way_, then = std::move(then)](const http::Answer& answer) { then(answer); }));
}

void RequestLog::Finish(const std::string& id, const http::Answer& answer) {
  std::vector<OnAnswer> waiting;
  {
    const base::MutexLock lock(&mutex_);
    Entry& entry = entries_[id];
    waiting.swap(entry.waiting);
    if (answer.retry_after > 0) {
      entries_.erase(id);
    } else {
      entry.answer = answer;
      entry.is_answered = true;
      answered_.push_back(id);
    }
    if (answered_.size() > kAnswersMax) {
      entries_.erase(answered_.front());
      answered_.pop_front();
    }
  }
  for (const OnAnswer& then : waiting) then(answer);
}

void BeginRequest(const Route& route, const Request& request, Job& job, RequestLog& log, OnAnswer then) {
  if (const std::optional<http::Answer> no = WhyNot(route, request)) return then(*no);
  if (!route.changes) return Begin(route, request, job, Promised(std::move(then)));
  const auto begin = [&](const OnAnswer& finish) { Begin(route, request, job, finish); };
  if (request.request_id.empty()) return log.Perform(std::move(then), begin, route.is_urgent);
  log.Perform(request.request_id, DigestOf(route, request), std::move(then), begin, route.is_urgent);
}

}  // namespace stepwatch::control_socket
