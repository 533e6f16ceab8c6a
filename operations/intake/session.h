// One connection of the intake: reads requests, answers them, streams events. A peer costs one connection and a bounded
// piece of memory; whoever is slow, says garbage or reads nothing loses the connection, and nobody else notices.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "operations/intake/service.h"
#include "src/base/byte_room.h"
#include "src/http/limits.h"
#include "src/http/tcp_gate.h"
#include "src/sockets/peer.h"

namespace stepwatch::operations {

// Of the loop's thread.
class IntakeSession {
 public:
  // What all sessions share; outlives them.
  struct Around {
    Service* service = nullptr;
    http::Limits limits;
    base::ByteRoom* room = nullptr;  // of large bodies
  };
  struct Caller {
    sockets::Access access = sockets::Access::kAll;
    const http::TcpGate* gate = nullptr;  // judges each request that comes over TCP; null over a Unix socket
  };

  // `fd`: a connected socket, which becomes the session's.
  IntakeSession(boost::asio::io_context& loop, const Around* around, int fd, Caller caller);

  // Serves until the connection ends, then calls `on_end`. The session lives as long.
  static void Run(const std::shared_ptr<IntakeSession>& session, std::function<void()> on_end);
  // There are new events.
  void Wake() { wake_.cancel(); }
  void Close();
  // It is known who this is: by the kernel's word, or by a token that was shown.
  bool is_known() const { return is_known_; }

 private:
  friend struct IntakeConversation;
  using Stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;

  const Around& around_;
  const Caller caller_;
  Stream stream_;
  boost::asio::steady_timer wake_;
  boost::beast::flat_buffer buffer_;
  bool is_known_ = false;
  bool closed_ = false;
};

}  // namespace stepwatch::operations
