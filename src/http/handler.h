// Interface between the HTTP server and the code that answers its requests: values in, values out. Loop thread only.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/http/answers.h"
#include "src/http/tcp_gate.h"
#include "src/sockets/peer.h"

namespace stepwatch::http {

// The request line and the fields.
using Head = boost::beast::http::request_header<>;

// The value of a header field; empty if it is missing.
template <class Name>
std::string FieldOf(const Head& head_untrusted, Name name) {
  const auto text = head_untrusted[name];
  return std::string(text.data(), text.size());
}

// The other end of a connection.
struct Caller {
  std::optional<sockets::Peer> peer;               // set for a Unix socket
  sockets::Access access = sockets::Access::kAll;  // of the peer, or of any client that the gate admits
  std::shared_ptr<const TcpGate> gate;             // judges each request over TCP; null for a Unix socket
  int fd = -1;                                     // descriptor of the connection
};

struct Request {
  Head head;
  std::string body;
  const Caller& caller;  // valid during the call
};

// Delivers the answer. Callable on any thread, once.
using OnAnswer = std::function<void(const Answer&)>;
// Returns the next server-sent events as text. Empty: no new events. Nullopt: the reader was too slow; the stream ends.
using EventSource = std::function<std::optional<std::string>()>;

struct Response {
  std::optional<Answer> answer;        // nullopt: OnAnswer delivers it later, or `events` is set
  std::function<Answer()> on_timeout;  // the answer to send if OnAnswer was not called in time
  EventSource events;                  // an endless stream, instead of an answer
  std::vector<int> descriptors;        // sent with the first byte of the answer, over a Unix socket
  std::shared_ptr<const void> keep;    // keeps the descriptors open
};

using Serve = std::function<Response(Request request, OnAnswer then)>;

// The decision about a request's header: either an answer that rejects it before its body is read, or `serve`.
struct Verdict {
  std::optional<Answer> rejection;
  Serve serve;
};

class Handler {
 public:
  virtual ~Handler() = default;

  // `busy`: null, or the answer to every request that is not urgent because no connection is free.
  virtual Verdict Accept(const Head& head_untrusted, const Caller& caller, const Answer* busy) = 0;
  // True: a request over TCP needs no token, and may come from a browser. Its body is small.
  virtual bool AdmitsAnyone(const Head& /*head_untrusted*/) { return false; }
  // The answer to a connection beyond the limit of `most` connections of its sort.
  virtual Answer WhenFull(size_t most) = 0;
  // The answer to a peer without access; nullopt: its connection is closed without an answer.
  virtual std::optional<Answer> WhenForbidden(const sockets::Admission& admission) = 0;
  // The answer to a large body when the memory for bodies is in use.
  virtual Answer WhenBodiesFull() { return Busy("the server is reading other large bodies; try again in a second"); }
};

}  // namespace stepwatch::http
