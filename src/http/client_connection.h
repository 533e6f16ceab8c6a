// The connection of a client, over a Unix socket or TCP: one request after another, as coroutines of one loop.
// All operations share one deadline, so a server that sends a byte a second cannot block the client for longer.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/byte_room.h"
#include "src/base/file.h"
#include "src/http/client.h"
#include "src/sockets/peer.h"
#include "stepwatch/status.h"

struct sockaddr_un;

namespace stepwatch::http {

class ClientConnection {
 public:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  using Message = boost::beast::http::request<boost::beast::http::string_body>;

  // Limits on a response.
  struct ReplyLimits {
    uint32_t header_bytes = 8 << 10;
    uint64_t body_bytes = 0;
    std::optional<base::ByteRoom> room = {};  // a body larger than kSmallBytes reserves its memory there
    size_t descriptors = 0;                   // maximum number that may come with the first byte; others are closed
  };
  static constexpr uint64_t kSmallBytes = uint64_t{64} << 10;

  struct Received {
    ErrorCode unsent;  // of sending the request: a server that stopped reading may have sent a response nevertheless
    ErrorCode error;   // of reading the response
    std::optional<uint64_t> bytes_without_room;  // size of a body that did not fit into `room`
    Reply reply;
    std::vector<base::UniqueFd> descriptors = {};
    std::optional<base::ByteRoom::Share> share = {};
    bool keeps_alive = false;
  };

  // Must outlive all its coroutines.
  explicit ClientConnection(const boost::asio::any_io_executor& executor);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // Pending operations then end with beast::error::timeout, and the connection is closed.
  void SetDeadline(Clock::time_point deadline);
  void ClearDeadline();
  boost::asio::awaitable<ErrorCode> Connect(const sockaddr_un& address);
  boost::asio::awaitable<ErrorCode> Connect(boost::asio::ip::tcp::resolver::results_type addresses);
  boost::asio::awaitable<Received> Ask(const Message& request, ReplyLimits limits);

  // A streamed response; `text` is the part that arrived with the header.
  struct Stream {
    ErrorCode error;
    int status = 0;
    std::string reason;
    std::string text;
  };
  boost::asio::awaitable<Stream> Open(const Message& request);
  // asio::error::operation_aborted: no byte arrived for this time.
  boost::asio::awaitable<std::pair<ErrorCode, size_t>> ReadSome(boost::asio::mutable_buffer buffer,
                                                                std::chrono::milliseconds time);

  bool is_open() const { return socket_.is_open(); }
  int fd() { return socket_.native_handle(); }
  void Close();

  // A request with the host name "stepwatch".
  static Message MakeMessage(const std::string& method, const std::string& target);

 private:
  // Reads the first bytes of a response and the descriptors sent with them.
  boost::asio::awaitable<ErrorCode> ReadDescriptors(size_t count, std::vector<base::UniqueFd>* descriptors);
  // The error to report: timeout if the operation failed because the deadline closed the socket, otherwise `error`.
  ErrorCode Cause(const ErrorCode& error) const;

  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<const void> deadline_;  // expires with the deadline, so that a late handler does nothing
  bool has_timed_out_ = false;
};

// kUnavailable: the process that serves this path is not trusted, see Client.
Status CheckServer(const std::string& path, const std::optional<sockets::Peer>& server, std::optional<uid_t> trusted);

// Runs a coroutine with a new connection on this thread until it ends. Throws the exceptions of the coroutine, and
// boost::system::system_error if there are no descriptors for a loop.
template <class Value>
Value RunWithConnection(const std::function<boost::asio::awaitable<Value>(ClientConnection&)>& converse) {
  boost::asio::io_context context(1);
  ClientConnection connection(context.get_executor());
  std::optional<Value> result;
  boost::asio::co_spawn(
      context,
      [&]() -> boost::asio::awaitable<void> {
        result.emplace(co_await converse(connection));
        connection.ClearDeadline();
      },
      [](const std::exception_ptr& thrown) {
        if (thrown) std::rethrow_exception(thrown);
      });
  context.run();
  return *std::move(result);
}

}  // namespace stepwatch::http
