// What a server asks of those who answer its requests: values in, values out, all of it on the server's loop.
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

// The text of a field; empty: there is none.
template <class Name>
std::string FieldOf(const Head& head_untrusted, Name name) {
  const auto text = head_untrusted[name];
  return std::string(text.data(), text.size());
}

// Who is at the other end of a connection.
struct Caller {
  std::optional<sockets::Peer> peer;               // over a Unix socket
  sockets::Access access = sockets::Access::kAll;  // of the peer, or of any client that the gate admits
  std::shared_ptr<const TcpGate> gate;             // judges each request that comes over TCP; null over a Unix socket
  int fd = -1;                                     // of the connection
};

struct Request {
  Head head;
  std::string body;
  const Caller& caller;  // within the call
};

// Takes the answer: on any thread, once.
using OnAnswer = std::function<void(const Answer&)>;
// The next server-sent events, as text. Empty: there are none yet. Nothing: the reader was too slow, and the stream
// ends.
using EventSource = std::function<std::optional<std::string>()>;

struct Response {
  std::optional<Answer> answer;        // nothing: the request's OnAnswer gets it later, or there are events
  std::function<Answer()> on_timeout;  // the answer if OnAnswer was not called in time
  EventSource events;                  // a stream without an end, instead of an answer
  std::vector<int> descriptors;        // leave with the first byte of the answer, through a Unix socket
  std::shared_ptr<const void> keep;    // keeps the descriptors open
};

using Serve = std::function<Response(Request request, OnAnswer then)>;

// Of a header: either an answer that rejects the request before its body is read, or what performs it.
struct Verdict {
  std::optional<Answer> rejection;
  Serve serve;
};

class Handler {
 public:
  virtual ~Handler() = default;

  // `busy`: the answer to a request that is not urgent, as no connection is free for it; null: there is room.
  virtual Verdict Accept(const Head& head_untrusted, const Caller& caller, const Answer* busy) = 0;
  // The answer to a connection that finds `most` others of its sort.
  virtual Answer WhenFull(size_t most) = 0;
  // The answer to a peer without access; nothing: its connection is closed.
  virtual std::optional<Answer> WhenForbidden(const sockets::Admission& admission) = 0;
  // The answer to a large body that finds no room beside others.
  virtual Answer WhenBodiesFull() { return Busy("the server is reading other large bodies; try again in a second"); }
};

}  // namespace stepwatch::http
