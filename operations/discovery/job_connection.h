// A connection to the control socket of a job, on the loop: it waits for nobody.
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

// Who serves a control socket, by the kernel's word.
struct SocketServer {
  sockets::Peer peer;    // its pid is 0 if that process has none here, as in another container
  base::UniqueFd pidfd;  // of the very process that listens, wherever it is; invalid before Linux 6.5
};

// One question after the other over one connection, which is made when it is needed and made again when it was lost. A
// question has its time from connecting to the last byte, so a server that sends a byte a second holds up nobody. Owned
// by a shared_ptr; lives on the loop's thread.
class JobConnection : public std::enable_shared_from_this<JobConnection> {
 public:
  using Done = std::function<void(Result<http::Reply>)>;

  // `trusted`: see http::Client. `room`: what the large answers of all connections may have at one time; nothing:
  // anything.
  JobConnection(boost::asio::io_context& loop, std::string path, std::optional<uid_t> trusted,
                std::optional<base::ByteRoom> room = {})
      : path_(std::move(path)),
        trusted_(trusted),
        room_(std::move(room)),
        executor_(loop.get_executor()),
        connection_(executor_) {}

  // GET. Calls `done` once, from the loop, and never from here; not at all after Close. kNotFound: nobody listens
  // there; kTimedOut; kExhausted: the answer has more than `bytes_max`, or more than there is room for; kUnavailable:
  // everything else. Only while no other question is under way.
  void Get(const std::string& target, std::chrono::milliseconds time, size_t bytes_max, Done done);
  bool is_busy() const { return done_ != nullptr; }
  void Close();

  // Of the connection made last; null: none was.
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
  uint64_t question_ = 0;  // a coroutine that was closed finds another number
  Done done_;
};

}  // namespace stepwatch::operations
