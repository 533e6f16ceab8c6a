// The table of what a control socket can be asked.
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
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {

struct Request {
  std::string target;     // as it was sent
  std::string parameter;  // what the path has in the place of {…}
  std::string query;      // what follows '?' in the target, as it was sent
  std::string body;
  std::string accept;                 // the header of that name
  std::string if_match;               // the header If-Match without its quotes; empty: whatever is there
  std::string request_id;             // the header Idempotency-Key: the same request, sent again, is performed once
  std::optional<sockets::Peer> peer;  // nothing: the kernel does not say who asks
  sockets::Access access = sockets::Access::kNone;  // of whoever asks at this control socket
  std::string exe;     // the program of the peer, for a route that changes something; empty: not known
  int from_rank = -1;  // whose control socket has taken and checked it, and handed it on; -1: this one
};

using http::OnAnswer;

struct Route {
  enum class Way : uint8_t {
    kAtOnce,    // on the control socket's thread: takes no time
    kOnWorker,  // on the worker, with a deadline
    kLater,     // begun on the worker, answered with the same deadline by whoever has the answer
    kEvents,    // a stream of events, without an end
    kPulse,     // descriptors beside the answer, through a Unix socket
  };

  const char* method;
  const char* path;  // a last part {…} stands for any
  Way way;
  http::Answer (*answer)(const Request& request, Job& job);  // kAtOnce, kOnWorker
  // kLater.
  void (*begin)(const Request& request, Job& job, OnAnswer then) = nullptr;
  // It changes what the job does: only the owner and root may ask for it, and a request with an id is performed once.
  bool changes = false;
  // What is asked belongs to the whole job: rank 0 alone answers it, and the control socket of any other rank hands it
  // on.
  bool is_of_job = false;
  // kLater: no limit on connections, questions or changes keeps it out, and it waits for no other request. It is begun
  // on the control socket's thread.
  bool is_urgent = false;
};

const std::vector<Route>& Routes();

struct Match {
  const Route* route = nullptr;
  std::string parameter;
  std::string query;
  std::string allow;  // the methods of the path, if it has others; empty: there is no such path
};
Match FindRoute(std::string_view method, std::string_view target_untrusted);

}  // namespace stepwatch::control_socket
