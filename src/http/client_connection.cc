#include "src/http/client_connection.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace stepwatch::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr auto kAwaited = asio::as_tuple(asio::use_awaitable);
constexpr size_t kDescriptorsOfMessage = 16;
constexpr size_t kReadBytes = 4096;
// Pause between two attempts to connect to a socket whose queue is full.
constexpr std::chrono::milliseconds kQueuePause{1};

void Keep(const cmsghdr& header, size_t count, std::vector<base::UniqueFd>* descriptors) {
  if (header.cmsg_level != SOL_SOCKET || header.cmsg_type != SCM_RIGHTS) return;
  const size_t sent = (header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < sent; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(&header) + i * sizeof(int), sizeof(int));
    base::UniqueFd kept(fd);
    if (descriptors->size() < count) descriptors->push_back(std::move(kept));
  }
}

boost::system::error_code ErrnoCode() {
  return {errno, boost::system::system_category()};
}

}  // namespace

ClientConnection::ClientConnection(const asio::any_io_executor& executor) : socket_(executor), timer_(executor) {}

void ClientConnection::SetDeadline(Clock::time_point deadline) {
  has_timed_out_ = false;
  const auto own = std::make_shared<char>();
  deadline_ = own;
  timer_.expires_at(deadline);
  timer_.async_wait([this, own = std::weak_ptr<const void>(deadline_)](const ErrorCode& error) {
    if (error || own.expired()) return;
    has_timed_out_ = true;
    Close();
  });
}

void ClientConnection::ClearDeadline() {
  deadline_.reset();
  timer_.cancel();
}

ClientConnection::ErrorCode ClientConnection::Cause(const ErrorCode& error) const {
  return error && has_timed_out_ ? make_error_code(beast::error::timeout) : error;
}

void ClientConnection::Close() {
  ErrorCode ignored;
  socket_.close(ignored);
  buffer_.clear();
}

asio::awaitable<ClientConnection::ErrorCode> ClientConnection::Connect(const sockaddr_un& address) {
  Close();
  if (has_timed_out_) co_return Cause(asio::error::operation_aborted);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) co_return ErrnoCode();
  ErrorCode error;
  socket_.assign(asio::generic::stream_protocol(AF_UNIX, 0), fd.get(), error);
  if (error) co_return error;
  (void)fd.Release();
  asio::steady_timer pause(socket_.get_executor());
  // EAGAIN: the queue of the listening socket is full.
  while (::connect(socket_.native_handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) co_return ErrnoCode();
    pause.expires_after(kQueuePause);
    (void)co_await pause.async_wait(kAwaited);
    if (!socket_.is_open()) co_return Cause(asio::error::operation_aborted);
  }
  co_return ErrorCode();
}

asio::awaitable<ClientConnection::ErrorCode> ClientConnection::Connect(
    asio::ip::tcp::resolver::results_type addresses) {
  ErrorCode result = asio::error::not_found;
  for (const auto& each : addresses) {
    if (has_timed_out_) break;
    Close();
    const asio::ip::tcp::endpoint endpoint = each.endpoint();
    base::UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) co_return ErrnoCode();
    socket_.assign(asio::generic::stream_protocol(endpoint.protocol()), fd.get(), result);
    if (result) co_return result;
    (void)fd.Release();
    const auto [error] = co_await socket_.async_connect(endpoint, kAwaited);
    result = Cause(error);
    if (!result) break;
  }
  co_return result;
}

asio::awaitable<ClientConnection::ErrorCode> ClientConnection::ReadDescriptors(
    size_t count, std::vector<base::UniqueFd>* descriptors) {
  for (;;) {
    const auto [error] = co_await socket_.async_wait(socket_.wait_read, kAwaited);
    if (error) co_return Cause(error);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsOfMessage)> room{};
    const auto buffer = buffer_.prepare(kReadBytes);
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) co_return ErrnoCode();
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each))
      Keep(*each, count, descriptors);
    buffer_.commit(static_cast<size_t>(got));
    co_return ErrorCode();
  }
}

asio::awaitable<ClientConnection::Received> ClientConnection::Ask(const Message& request, ReplyLimits limits) {
  Received received;
  buffer_.clear();
  if (const auto [error, bytes] = co_await beast::http::async_write(socket_, request, kAwaited); error)
    received.unsent = Cause(error);
  if (limits.descriptors > 0) {
    received.error = co_await ReadDescriptors(limits.descriptors, &received.descriptors);
    if (received.error) co_return received;
  }
  beast::http::response_parser<beast::http::string_body> parser;
  parser.header_limit(limits.header_bytes);
  parser.body_limit(limits.body_bytes);
  if (const auto [error, bytes] = co_await beast::http::async_read_header(socket_, buffer_, parser, kAwaited); error) {
    received.error = Cause(error);
    co_return received;
  }
  const uint64_t body_bytes = parser.content_length().value_or(limits.body_bytes);
  if (limits.room && body_bytes > kSmallBytes && !(received.share = limits.room->Take(body_bytes))) {
    received.bytes_without_room = body_bytes;
    co_return received;
  }
  if (const auto [error, bytes] = co_await beast::http::async_read(socket_, buffer_, parser, kAwaited); error) {
    received.error = Cause(error);
    co_return received;
  }
  received.keeps_alive = parser.keep_alive();
  received.reply = {static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
  co_return received;
}

asio::awaitable<ClientConnection::Stream> ClientConnection::Open(const Message& request) {
  Stream opened;
  if (const auto [error, bytes] = co_await beast::http::async_write(socket_, request, kAwaited); error) {
    opened.error = Cause(error);
    co_return opened;
  }
  beast::http::response_parser<beast::http::empty_body> parser;
  const auto [error, bytes] = co_await beast::http::async_read_header(socket_, buffer_, parser, kAwaited);
  opened.error = Cause(error);
  opened.status = static_cast<int>(parser.get().result_int());
  opened.reason = std::string(parser.get().reason());
  opened.text = beast::buffers_to_string(buffer_.data());
  co_return opened;
}

asio::awaitable<std::pair<ClientConnection::ErrorCode, size_t>> ClientConnection::ReadSome(
    asio::mutable_buffer buffer, std::chrono::milliseconds time) {
  asio::steady_timer quiet(socket_.get_executor(), time);
  quiet.async_wait([this](const ErrorCode& error) {
    ErrorCode ignored;
    if (!error) socket_.cancel(ignored);
  });
  const auto [error, bytes] = co_await socket_.async_read_some(buffer, kAwaited);
  co_return std::pair(Cause(error), bytes);
}

Status CheckServer(const std::string& path, const std::optional<sockets::Peer>& server, std::optional<uid_t> trusted) {
  if (sockets::IsTrustedServer(server, trusted)) return Status();
  // Another process may listen there if the directory was replaced.
  return Status(StatusCode::kUnavailable, path + " is served by another user" +
                                              (server ? ", uid " + std::to_string(server->uid) : "") +
                                              "; the request was not sent");
}

ClientConnection::Message ClientConnection::MakeMessage(const std::string& method, const std::string& target) {
  Message message(beast::http::string_to_verb(method), target, 11);
  message.set(beast::http::field::host, "stepwatch");
  return message;
}

}  // namespace stepwatch::http
