// The connection of a client, over a Unix socket or TCP: one request after the other, as coroutines of one loop.
//
// All that it does ends at one deadline, so a server that sends a byte a second holds up nobody.
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

  // What is accepted of an answer.
  struct ReplyLimits {
    uint32_t header_bytes = 8 << 10;
    uint64_t body_bytes = 0;
    std::optional<base::ByteRoom> room = {};  // a body of more than kSmallBytes takes its bytes from it
    size_t descriptors = 0;                   // that come with its first byte; others are closed
  };
  static constexpr uint64_t kSmallBytes = uint64_t{64} << 10;

  struct Received {
    ErrorCode unsent;  // of the request: a server that refuses to read on may have answered nevertheless
    ErrorCode error;   // of the answer
    std::optional<uint64_t> bytes_without_room;  // of a body for which there is no room
    Reply reply;
    std::vector<base::UniqueFd> descriptors = {};
    std::optional<base::ByteRoom::Share> share = {};
    bool keeps_alive = false;
  };

  // Outlives every coroutine of it.
  explicit ClientConnection(const boost::asio::any_io_executor& executor);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // Whatever is under way then ends with beast::error::timeout, and the connection is closed.
  void SetDeadline(Clock::time_point deadline);
  void ClearDeadline();
  boost::asio::awaitable<ErrorCode> Connect(const sockaddr_un& address);
  boost::asio::awaitable<ErrorCode> Connect(boost::asio::ip::tcp::resolver::results_type addresses);
  boost::asio::awaitable<Received> Ask(const Message& request, ReplyLimits limits);

  // A request whose answer is a stream: `text` is what has come of it with the header.
  struct Stream {
    ErrorCode error;
    int status = 0;
    std::string reason;
    std::string text;
  };
  boost::asio::awaitable<Stream> Open(const Message& request);
  // asio::error::operation_aborted: nothing has come for this time.
  boost::asio::awaitable<std::pair<ErrorCode, size_t>> ReadSome(boost::asio::mutable_buffer buffer,
                                                                std::chrono::milliseconds time);

  bool is_open() const { return socket_.is_open(); }
  int fd() { return socket_.native_handle(); }
  void Close();

  // To "stepwatch".
  static Message MakeMessage(const std::string& method, const std::string& target);

 private:
  // The first bytes of an answer and the descriptors beside them.
  boost::asio::awaitable<ErrorCode> ReadDescriptors(size_t count, std::vector<base::UniqueFd>* descriptors);
  // Of what ended because the deadline has closed the socket.
  ErrorCode Cause(const ErrorCode& error) const;

  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<const void> deadline_;  // a handler that is late finds that its own has expired
  bool has_timed_out_ = false;
};

// kUnavailable: the server at this path is not to be trusted, see Client.
Status CheckServer(const std::string& path, const std::optional<sockets::Peer>& server, std::optional<uid_t> trusted);

// Runs a coroutine with a connection of its own to its end, on this thread. Throws what the coroutine throws, and
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
