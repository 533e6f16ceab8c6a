#include "controller/door/perform.h"

#include <exception>
#include <optional>
#include <utility>

#include "controller/door/forward.h"
#include "controller/door/request_log.h"
#include "src/base/text.h"

namespace stepwatch::door {
namespace {

// Less than the door waits for: whoever asks hears which rank has not answered.
constexpr std::chrono::milliseconds kForwardTime{4500};

Answer AnswerOfRank0(const Result<std::string>& reply) {
  if (!reply.ok()) return Busy(reply.status().message());
  Result<Answer> answer = AnswerFrom(reply.value());
  return answer.ok() ? std::move(answer).value() : Failed(answer.status().message());
}

void HandOn(const Route& route, const Request& request, Job& job, const OnAnswer& then) {
  const Result<std::string> text = ForwardText({route.method, request});
  if (!text.ok()) return then(BadRequest(text.status().message()));
  job.Forward(text.value(), kForwardTime, route.is_urgent,
              [then](const Result<std::string>& reply) { then(AnswerOfRank0(reply)); });
}

void Begin(const Workplace& place, const Route& route, const Request& request, const OnAnswer& then) {
  const bool is_handed_on = IsForRank0(route, *place.job) && request.from_rank < 0;
  if (!is_handed_on) return BeginRequest(route, request, *place.job, *place.requests, then);
  // Rank 0 does not see who asks.
  if (const std::optional<Answer> no = WhyNot(route, request)) return then(*no);
  try {
    HandOn(route, request, *place.job, then);
  } catch (const std::exception& error) {
    then(Failed(std::string("cannot forward the request: ") + error.what()));
  }
}

Answer WithoutRoute(const Forwarded& forwarded, const Match& match) {
  return match.allow.empty() ? NoSuchPath(forwarded.request.target)
                             : NoSuchMethod(forwarded.request.target, match.allow);
}

}  // namespace

Answer AnswerNow(const Route& route, const Request& request, Job& job) try {
  return route.answer(request, job);
} catch (const std::exception& error) {
  return Failed(std::string("cannot answer the request: ") + error.what());
} catch (...) {
  return Failed("cannot answer the request");
}

bool IsForRank0(const Route& route, const Job& job) {
  return route.is_of_job && !job.Leads();
}

bool AnswerOnWorker(const Workplace& place, const Route& route, Request request, OnAnswer then) {
  if (route.is_urgent) {
    Begin(place, route, request, then);
    return true;
  }
  // The worker may hold the question for longer than a door lives.
  return place.worker->Post([place, owner = place.owner.lock(), &route, request = std::move(request),
                             then = std::move(then)] { Begin(place, route, request, then); });
}

bool AnswerForwarded(const Workplace& place, int rank, std::string text_untrusted,
                     std::function<void(std::string)> then) {
  auto answered = [then = std::move(then)](const Answer& answer) {
    const bool is_text = base::ValidUtf8(answer.body) == answer.body;
    then(AnswerText(
        is_text ? answer
                : Failed("the answer is not valid UTF-8 and cannot be forwarded; use the control socket of rank 0")));
  };
  Result<Forwarded> forwarded = ForwardedFrom(rank, text_untrusted);
  Match match;
  if (forwarded.ok()) match = FindRoute(forwarded.value().method, forwarded.value().request.target);
  if (!forwarded.ok()) {
    answered(BadRequest(forwarded.status().message()));
  } else if (match.route == nullptr) {
    answered(WithoutRoute(forwarded.value(), match));
  } else if (!match.route->is_of_job || IsForRank0(*match.route, *place.job)) {
    answered(BadRequest("rank 0 does not perform this request for other ranks"));
  } else {
    Request& request = forwarded.value().request;
    request.parameter = std::move(match.parameter);
    request.query = std::move(match.query);
    return AnswerOnWorker(place, *match.route, std::move(request), answered);
  }
  return true;
}

}  // namespace stepwatch::door
