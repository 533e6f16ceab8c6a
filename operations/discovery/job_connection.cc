#include "operations/discovery/job_connection.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <exception>
#include <utility>

#include "src/sockets/unix_address.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace stepwatch::operations {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using ErrorCode = http::ClientConnection::ErrorCode;

constexpr uint32_t kHeaderBytesMax = 16 << 10;

base::UniqueFd PidfdOfPeer(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) return base::UniqueFd();
  return base::UniqueFd(pidfd);
}

}  // namespace

void JobConnection::Get(const std::string& target, std::chrono::milliseconds time, size_t bytes_max, Done done) {
  done_ = std::move(done);
  connection_.SetDeadline(http::ClientConnection::Clock::now() + time);
  asio::co_spawn(executor_, Converse(target, bytes_max, ++question_),
                 [self = shared_from_this()](const std::exception_ptr& thrown) {
                   if (thrown) std::rethrow_exception(thrown);
                 });
}

asio::awaitable<void> JobConnection::Converse(std::string target, size_t bytes_max, uint64_t question) {
  co_await asio::post(executor_, asio::use_awaitable);
  const auto request = http::ClientConnection::MakeMessage("GET", target);
  bool is_kept = connection_.is_open();  // from an earlier request: the other end may have closed it since
  while (IsAwaited(question)) {
    Status connected;
    if (!is_kept) connected = co_await Connect();
    if (!IsAwaited(question)) co_return;
    if (!connected.ok()) co_return Finish(std::move(connected));
    // A variable: GCC 12 destroys an aggregate among the arguments of co_await twice.
    http::ClientConnection::ReplyLimits limits;
    limits.header_bytes = kHeaderBytesMax;
    limits.body_bytes = bytes_max;
    limits.room = room_;
    http::ClientConnection::Received received = co_await connection_.Ask(request, std::move(limits));
    if (!IsAwaited(question)) co_return;
    const bool was_closed = received.unsent || received.error == beast::http::error::end_of_stream;
    if (std::exchange(is_kept, false) && was_closed) continue;
    if (!received.keeps_alive) connection_.Close();
    // The share of the room lasts until the answer is processed.
    co_return Finish(ReplyOf(&received, bytes_max));
  }
}

asio::awaitable<Status> JobConnection::Connect() {
  const std::optional<sockaddr_un> address = sockets::UnixAddress(path_);
  if (!address) co_return Status(StatusCode::kUnavailable, path_ + " is too long for the path of a socket");
  const ErrorCode error = co_await connection_.Connect(*address);
  if (error) co_return Failure(error);
  const std::optional<sockets::Peer> peer = sockets::PeerOf(connection_.fd());
  Status trusted = http::CheckServer(path_, peer, trusted_);
  if (!trusted.ok())
    connection_.Close();
  else
    server_ = SocketServer{*peer, PidfdOfPeer(connection_.fd())};
  co_return trusted;
}

Result<http::Reply> JobConnection::ReplyOf(http::ClientConnection::Received* received, size_t bytes_max) const {
  if (received->bytes_without_room)
    return Status(StatusCode::kExhausted, path_ + " returned " + std::to_string(*received->bytes_without_room) +
                                              " bytes, more than the memory left for responses");
  const ErrorCode error = received->unsent ? received->unsent : received->error;
  if (error == beast::http::error::body_limit)
    return Status(StatusCode::kExhausted, path_ + " returned more than " + std::to_string(bytes_max) + " bytes");
  if (error) return Failure(error);
  return std::move(received->reply);
}

Status JobConnection::Failure(const ErrorCode& error) const {
  const bool nobody_listens =
      error == asio::error::connection_refused || error == boost::system::errc::no_such_file_or_directory;
  const StatusCode code = nobody_listens                   ? StatusCode::kNotFound
                          : error == beast::error::timeout ? StatusCode::kTimedOut
                                                           : StatusCode::kUnavailable;
  return Status(code, path_ + " has not answered: " + error.message());
}

void JobConnection::Finish(Result<http::Reply> result) {
  connection_.ClearDeadline();
  std::exchange(done_, nullptr)(std::move(result));
}

void JobConnection::Close() {
  done_ = nullptr;
  connection_.ClearDeadline();
  connection_.Close();
}

base::UniqueFd JobConnection::TakePidfd() {
  return server_ ? std::move(server_->pidfd) : base::UniqueFd();
}

}  // namespace stepwatch::operations
