#include "controller/control_socket/handler.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "controller/control_socket/json_values.h"
#include "src/base/parse_number.h"
#include "src/http/event_stream.h"
#include "src/json/json.h"
#include "src/vocabulary/pulse_page.h"

namespace stepwatch::control_socket {
namespace {

using boost::beast::http::field;

constexpr size_t kEventsOfPage = 50;

std::string WithoutQuotes(std::string text) {
  const bool is_quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

std::string TextOf(const NumberedEvent& each) {
  Json json = {{"version", http::kAnswerVersion}, {"id", each.id}};
  json.update(EventJson(each.event));
  if (each.peer) json["peer"] = PeerJson(*each.peer);
  return http::EventText(static_cast<int64_t>(each.id), EventKindName(each.event.kind), json::Dump(json));
}

Request RequestOf(Match match, http::Request sent) {
  const http::Caller& caller = sent.caller;
  Request request;
  if (match.route->changes && caller.peer) request.exe = sockets::ProgramOf(caller.fd, *caller.peer);
  request.target = std::string(sent.head.target());
  request.parameters = std::move(match.parameters);
  request.query = std::move(match.query);
  request.body = std::move(sent.body);
  request.accept = http::FieldOf(sent.head, field::accept);
  request.if_match = WithoutQuotes(http::FieldOf(sent.head, field::if_match));
  request.request_id = http::FieldOf(sent.head, "Idempotency-Key");
  request.peer = caller.peer;
  request.access = caller.access;
  return request;
}

// Sent with the descriptors of the pulse.
http::Answer PulseAnswer(const PulseGrant& grant) {
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"layout", vocabulary::kPulseLayout},
                           {"page_bytes", grant.page_bytes},
                           {"names_bytes", grant.names_fd < 0 ? Json() : Json(grant.names_bytes)},
                           {"names_generation", grant.names_fd < 0 ? Json() : Json(grant.names_generation)}});
}

http::Response Now(http::Answer answer) {
  http::Response response;
  response.answer = std::move(answer);
  return response;
}

}  // namespace

http::Verdict JobHandler::Accept(const http::Head& head_untrusted, const http::Caller& caller,
                                 const http::Answer* busy) {
  const std::string method(head_untrusted.method_string());
  const std::string target(head_untrusted.target());
  Match match = FindRoute(method, target);
  if (match.route == nullptr) return {http::NoRoute(target, match.allow), {}};
  if (busy != nullptr && !match.route->is_urgent) return {*busy, {}};
  if (caller.access != sockets::Access::kAll && (method != "GET" || match.route->changes))
    return {http::ReadersOnlyGet(method, "the job"), {}};
  return {std::nullopt, [this, match = std::move(match)](http::Request sent, OnAnswer then) mutable {
            return Perform(std::move(match), std::move(sent), std::move(then));
          }};
}

http::Answer JobHandler::WhenFull(size_t most) {
  return http::Busy("the control socket accepts at most " + std::to_string(most) +
                    " connections, and that many are open; try again");
}

std::optional<http::Answer> JobHandler::WhenForbidden(const sockets::Admission& admission) {
  return http::Forbidden(sockets::WhoMayAsk(admission));
}

http::Response JobHandler::Perform(Match match, http::Request sent, OnAnswer then) {
  const Route& route = *match.route;
  http::Response response;
  if (route.way == Route::Way::kEvents) {
    response.events = EventsAfter(base::ParseNumber<uint64_t>(http::FieldOf(sent.head, "Last-Event-ID")).value_or(0));
    return response;
  }
  if (route.way == Route::Way::kPulse) return SendPulse(sent.caller);
  Request request = RequestOf(std::move(match), std::move(sent));
  if (route.way == Route::Way::kAtOnce && !IsForRank0(route, *place_.job))
    return Now(AnswerNow(route, request, *place_.job));
  if (!AnswerOnWorker(place_, route, std::move(request), std::move(then)))
    return Now(http::Busy("too many requests are waiting; try again"));
  response.on_timeout = [changes = route.changes, time = limits_.answer_time.count()] {
    return http::Busy(
        changes ? fmt::format("the job has not answered within {} ms and continues with the request; repeat it with "
                              "the same Idempotency-Key to get its result",
                              time)
                : fmt::format("the job has not answered within {} ms; try again", time));
  };
  return response;
}

// A client that did not request the descriptors, such as curl, gets the answer alone.
http::Response JobHandler::SendPulse(const http::Caller& caller) {
  if (caller.gate != nullptr)
    return Now(http::Forbidden("the pulse is passed as file descriptors, which requires the Unix socket"));
  PulseGrant grant = place_.job->Pulse();
  if (grant.page_fd < 0)
    return Now(http::ErrorAnswer(
        404, "no_pulse", "this process has no pulse: it could not allocate shared memory; an event reports why"));
  http::Response response = Now(PulseAnswer(grant));
  response.descriptors.push_back(grant.page_fd);
  if (grant.names_fd >= 0) response.descriptors.push_back(grant.names_fd);
  response.keep = std::move(grant.keep);
  return response;
}

// Keeps only the reader's position in the event ring. A reader that the ring has overtaken is disconnected, except
// before its first page: then it receives a gap event first.
http::EventSource JobHandler::EventsAfter(uint64_t last_event) {
  // A larger number is from an earlier monitor at this socket, so the stream starts at the first event.
  if (last_event > place_.job->EventsAfter(last_event, 0).newest) last_event = 0;
  return [this, last_event, has_begun = false]() mutable -> std::optional<std::string> {
    const EventPage page = place_.job->EventsAfter(last_event, kEventsOfPage);
    const bool is_first = !std::exchange(has_begun, true);
    if (page.events.empty()) return "";
    const uint64_t missed = page.events.front().id - last_event - 1;
    if (missed > 0 && !is_first) return std::nullopt;
    std::string text;
    if (missed > 0)
      text = http::EventText(std::nullopt, "gap", json::Dump({{"version", http::kAnswerVersion}, {"missed", missed}}));
    last_event = page.events.back().id;
    for (const NumberedEvent& each : page.events) text += TextOf(each);
    return text;
  };
}

}  // namespace stepwatch::control_socket
