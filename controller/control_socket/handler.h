// Handles the requests of a control socket: finds the route, checks access, and has the request performed.
#pragma once

#include <optional>

#include "controller/control_socket/perform.h"
#include "controller/control_socket/routes.h"
#include "src/http/answers.h"
#include "src/http/handler.h"
#include "src/http/limits.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {

class JobHandler final : public http::Handler {
 public:
  JobHandler(Workplace place, const http::Limits& limits) : place_(std::move(place)), limits_(limits) {}

  http::Verdict Accept(const http::Head& head_untrusted, const http::Caller& caller, const http::Answer* busy) override;
  http::Answer WhenFull(size_t most) override;
  std::optional<http::Answer> WhenForbidden(const sockets::Admission& admission) override;

  const Workplace& place() const { return place_; }
  // No request arrives after this call.
  void LetGoOfJob() { place_.job.reset(); }

 private:
  http::Response Perform(Match match, http::Request sent, OnAnswer then);
  http::Response SendPulse(const http::Caller& caller);
  // Streams the events with larger numbers.
  http::EventSource EventsAfter(uint64_t last_event);

  Workplace place_;
  const http::Limits limits_;
};

}  // namespace stepwatch::control_socket
