#include "controller/control_socket/perform.h"

#include <exception>
#include <optional>
#include <utility>

#include "controller/control_socket/forward.h"
#include "controller/control_socket/request_log.h"
#include "src/base/text.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {
namespace {

// Shorter than the time limit of the control socket, so that the client learns which rank did not answer.
constexpr std::chrono::milliseconds kForwardTime{4500};

http::Answer AnswerOfRank0(const Result<std::string>& reply) {
  if (!reply.ok()) return http::Busy(reply.status().message());
  Result<http::Answer> answer = AnswerFrom(reply.value());
  return answer.ok() ? std::move(answer).value() : http::Failed(answer.status().message());
}

void HandOn(const Route& route, const Request& request, Job& job, const OnAnswer& then) {
  const Result<std::string> text = ForwardText({route.method, request});
  if (!text.ok()) return then(http::BadRequest(text.status().message()));
  job.Forward(text.value(), kForwardTime, route.is_urgent,
              [then](const Result<std::string>& reply) { then(AnswerOfRank0(reply)); });
}

void Begin(const Workplace& place, const Route& route, const Request& request, const OnAnswer& then) {
  const bool is_handed_on = IsForRank0(route, *place.job) && request.from_rank < 0;
  if (!is_handed_on) return BeginRequest(route, request, *place.job, *place.requests, then);
  // Checked here because rank 0 does not see the client.
  if (const std::optional<http::Answer> no = WhyNot(route, request)) return then(*no);
  try {
    HandOn(route, request, *place.job, then);
  } catch (const std::exception& error) {
    then(http::Failed(std::string("cannot forward the request: ") + error.what()));
  }
}

}  // namespace

http::Answer AnswerNow(const Route& route, const Request& request, Job& job) try {
  return route.answer(request, job);
} catch (const std::exception& error) {
  return http::Failed(std::string("cannot answer the request: ") + error.what());
} catch (...) {
  return http::Failed("cannot answer the request");
}

bool IsForRank0(const Route& route, const Job& job) {
  return route.is_of_job && !job.Leads();
}

bool AnswerOnWorker(const Workplace& place, const Route& route, Request request, OnAnswer then) {
  if (route.is_urgent) {
    Begin(place, route, request, then);
    return true;
  }
  // The worker may hold the question for longer than a control socket lives.
  return place.worker->Post([place, owner = place.owner.lock(), &route, request = std::move(request),
                             then = std::move(then)] { Begin(place, route, request, then); });
}

bool AnswerForwarded(const Workplace& place, int rank, std::string text_untrusted,
                     std::function<void(std::string)> then) {
  auto answered = [then = std::move(then)](const http::Answer& answer) {
    const bool is_text = base::ValidUtf8(answer.body) == answer.body;
    then(AnswerText(
        is_text
            ? answer
            : http::Failed("the answer is not valid UTF-8 and cannot be forwarded; use the control socket of rank 0")));
  };
  Result<Forwarded> forwarded = ForwardedFrom(rank, text_untrusted);
  Match match;
  if (forwarded.ok()) match = FindRoute(forwarded.value().method, forwarded.value().request.target);
  if (!forwarded.ok()) {
    answered(http::BadRequest(forwarded.status().message()));
  } else if (match.route == nullptr) {
    answered(http::NoRoute(forwarded.value().request.target, match.allow));
  } else if (!match.route->is_of_job || IsForRank0(*match.route, *place.job)) {
    answered(http::BadRequest("rank 0 does not perform this request for other ranks"));
  } else {
    Request& request = forwarded.value().request;
    request.parameters = std::move(match.parameters);
    request.query = std::move(match.query);
    return AnswerOnWorker(place, *match.route, std::move(request), answered);
  }
  return true;
}

}  // namespace stepwatch::control_socket
