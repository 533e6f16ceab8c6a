// The table of the control socket's routes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/control_socket/job.h"
#include "src/http/answers.h"
#include "src/http/handler.h"
#include "src/http/router.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {

struct Request {
  std::string target;                   // as sent
  std::vector<std::string> parameters;  // the parts of the path in the places of {…}
  std::string query;                    // the part of the target after '?', as sent
  std::string body;
  std::string accept;                 // value of the header Accept
  std::string if_match;               // value of the header If-Match without quotes; empty: no condition
  std::string request_id;             // value of the header Idempotency-Key; a repeated request is performed once
  std::optional<sockets::Peer> peer;  // nullopt: the kernel does not identify the client
  sockets::Access access = sockets::Access::kNone;  // of the client of this control socket
  std::string exe;     // program of the peer, for a route that changes something; empty: unknown
  int from_rank = -1;  // the rank that accepted, checked and forwarded the request; -1: this one
};

using http::OnAnswer;

struct Route {
  enum class Way : uint8_t {
    kAtOnce,    // on the control socket's thread; immediate
    kOnWorker,  // on the worker, with a deadline
    kLater,     // begun on the worker, answered later within the same deadline
    kEvents,    // an endless stream of events
    kPulse,     // sends descriptors with the answer, over a Unix socket
  };

  const char* method;
  const char* path;
  Way way;
  http::Answer (*answer)(const Request& request, Job& job);  // kAtOnce, kOnWorker
  // kLater
  void (*begin)(const Request& request, Job& job, OnAnswer then) = nullptr;
  // It changes the job: only the owner and root may use it, and a request with an id is performed once.
  bool changes = false;
  // It concerns the whole job: only rank 0 answers it, and the control sockets of other ranks forward it.
  bool is_of_job = false;
  // kLater: exempt from the limits on connections, questions and changes, and ahead of other requests. It begins on the
  // control socket's thread.
  bool is_urgent = false;
};

const std::vector<Route>& Routes();

using Match = http::Match<Route>;
Match FindRoute(std::string_view method, std::string_view target_untrusted);

}  // namespace stepwatch::control_socket
