#include "operations/discovery/job_connection.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

#include "src/sockets/unix_address.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace stepwatch::operations {
namespace {

namespace beast = boost::beast;

constexpr size_t kHeaderBytesMax = 16 << 10;

base::UniqueFd PidfdOfPeer(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) return base::UniqueFd();
  return base::UniqueFd(pidfd);
}

}  // namespace

void JobConnection::Get(const std::string& target, std::chrono::milliseconds time, size_t bytes_max, Done done) {
  done_ = std::move(done);
  bytes_max_ = bytes_max;
  request_ = {beast::http::verb::get, target, 11};
  request_.set(beast::http::field::host, "stepwatch");
  stream_.expires_after(time);
  is_kept_ = is_connected_;
  boost::asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (!self->done_) return;
    self->is_connected_ ? self->Write() : self->Connect();
  });
}

void JobConnection::Connect() {
  if (path_.size() > sockets::kSocketPathBytesMax)
    return Finish(Status(StatusCode::kUnavailable, path_ + " is too long for the path of a socket"));
  stream_.async_connect(boost::asio::local::stream_protocol::endpoint(path_),
                        [self = shared_from_this()](const ErrorCode& error) { self->OnConnected(error); });
}

// Whoever listens could be somebody else, in a directory that is not what it was.
void JobConnection::OnConnected(const ErrorCode& error) {
  if (!done_) return;
  if (error) return Fail(error);
  const int socket = stream_.socket().native_handle();
  const std::optional<sockets::Peer> peer = sockets::PeerOf(socket);
  if (!sockets::IsTrustedServer(peer, trusted_)) {
    Drop();
    return Finish(Status(StatusCode::kUnavailable, path_ + " is served by another user" +
                                                       (peer ? ", uid " + std::to_string(peer->uid) : "") +
                                                       "; the request was not sent"));
  }
  server_ = SocketServer{*peer, PidfdOfPeer(socket)};
  is_connected_ = true;
  Write();
}

void JobConnection::Write() {
  beast::http::async_write(stream_, request_, [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (!self->done_) return;
    if (!error) return self->Read();
    if (!self->AskAgain()) self->Fail(error);
  });
}

void JobConnection::Read() {
  buffer_.clear();
  parser_.emplace();
  parser_->header_limit(kHeaderBytesMax);
  parser_->body_limit(bytes_max_);
  beast::http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const ErrorCode& error, size_t) { self->OnHeader(error); });
}

void JobConnection::OnHeader(const ErrorCode& error) {
  if (!done_ || error) return OnRead(error);
  const uint64_t bytes = parser_->content_length().value_or(bytes_max_);
  if (room_ && bytes > kSmallBytesMax && !(share_ = room_->Take(bytes))) {
    Drop();
    return Finish(Status(StatusCode::kExhausted, path_ + " returned " + std::to_string(bytes) +
                                                     " bytes, more than the memory left for responses"));
  }
  beast::http::async_read(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const ErrorCode& failed, size_t) { self->OnRead(failed); });
}

void JobConnection::OnRead(const ErrorCode& error) {
  if (!done_) return;
  if (error == beast::http::error::end_of_stream && AskAgain()) return;
  if (error) return Fail(error);
  http::Reply reply{static_cast<int>(parser_->get().result_int()), std::move(parser_->get().body())};
  if (!parser_->keep_alive()) Drop();
  Finish(std::move(reply));
}

bool JobConnection::AskAgain() {
  if (!std::exchange(is_kept_, false)) return false;
  Drop();
  Connect();
  return true;
}

void JobConnection::Fail(const ErrorCode& error) {
  Drop();
  const bool is_deaf =
      error == boost::asio::error::connection_refused || error == boost::system::errc::no_such_file_or_directory;
  const StatusCode code = is_deaf                                   ? StatusCode::kNotFound
                          : error == boost::beast::error::timeout   ? StatusCode::kTimedOut
                          : error == beast::http::error::body_limit ? StatusCode::kExhausted
                                                                    : StatusCode::kUnavailable;
  if (code == StatusCode::kExhausted)
    return Finish(Status(code, path_ + " returned more than " + std::to_string(bytes_max_) + " bytes"));
  Finish(Status(code, path_ + " has not answered: " + error.message()));
}

void JobConnection::Finish(Result<http::Reply> result) {
  stream_.expires_never();
  parser_.reset();
  buffer_ = {};
  // Until the answer is taken, its bytes are there.
  const auto share = std::exchange(share_, std::nullopt);
  if (done_) std::exchange(done_, nullptr)(std::move(result));
}

void JobConnection::Drop() {
  is_connected_ = false;
  ErrorCode ignored;
  stream_.socket().close(ignored);
}

void JobConnection::Close() {
  done_ = nullptr;
  Drop();
}

base::UniqueFd JobConnection::TakePidfd() {
  return server_ ? std::move(server_->pidfd) : base::UniqueFd();
}

}  // namespace stepwatch::operations
