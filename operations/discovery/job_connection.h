// A connection to the control socket of a job, on the loop, without blocking.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/byte_room.h"
#include "src/base/file.h"
#include "src/http/client.h"
#include "src/http/client_connection.h"
#include "src/sockets/peer.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// The process that serves a control socket, from the kernel's peer credentials.
struct SocketServer {
  sockets::Peer peer;    // its pid is 0 if that process has no pid here, as in another container
  base::UniqueFd pidfd;  // of the process that listens, in any container; invalid before Linux 6.5
};

// Sends one request after the other over one connection, which is made on demand and again after a loss. The time of a
// request runs from connecting to the last byte, so a server that sends a byte a second cannot delay the caller. Owned
// by a shared_ptr; lives on the loop's thread.
class JobConnection : public std::enable_shared_from_this<JobConnection> {
 public:
  using Done = std::function<void(Result<http::Reply>)>;

  // `trusted`: see http::Client. `room`: limit for the large answers of all connections at one time; null: unlimited.
  JobConnection(boost::asio::io_context& loop, std::string path, std::optional<uid_t> trusted,
                std::optional<base::ByteRoom> room = {})
      : path_(std::move(path)),
        trusted_(trusted),
        room_(std::move(room)),
        executor_(loop.get_executor()),
        connection_(executor_) {}

  // GET. Calls `done` once, from the loop and never from here; not at all after Close. kNotFound: no process listens
  // there; kTimedOut; kExhausted: the answer has more than `bytes_max`, or more than there is room for; kUnavailable:
  // everything else. Only while no other request is running.
  void Get(const std::string& target, std::chrono::milliseconds time, size_t bytes_max, Done done);
  bool is_busy() const { return done_ != nullptr; }
  void Close();

  // Peer of the last connection; null: no connection was made.
  const SocketServer* server() const { return server_ ? &*server_ : nullptr; }
  base::UniqueFd TakePidfd();

 private:
  boost::asio::awaitable<void> Converse(std::string target, size_t bytes_max, uint64_t question);
  boost::asio::awaitable<Status> Connect();
  bool IsAwaited(uint64_t question) const { return done_ && question_ == question; }
  Result<http::Reply> ReplyOf(http::ClientConnection::Received* received, size_t bytes_max) const;
  Status Failure(const http::ClientConnection::ErrorCode& error) const;
  void Finish(Result<http::Reply> result);

  const std::string path_;
  const std::optional<uid_t> trusted_;
  const std::optional<base::ByteRoom> room_;
  const boost::asio::any_io_executor executor_;
  http::ClientConnection connection_;
  std::optional<SocketServer> server_;
  uint64_t question_ = 0;  // a closed coroutine finds another number
  Done done_;
};

}  // namespace stepwatch::operations
