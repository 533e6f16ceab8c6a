// A connection to the control socket of a job, on the loop: it waits for nobody.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/byte_room.h"
#include "src/base/file.h"
#include "src/http/client.h"
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

  // An answer that has more takes its bytes from `room`.
  static constexpr size_t kSmallBytesMax = size_t{64} << 10;

  // `trusted`: see http::Client. `room`: what the large answers of all connections may have at one time; nothing:
  // anything.
  JobConnection(boost::asio::io_context& loop, std::string path, std::optional<uid_t> trusted,
                std::optional<base::ByteRoom> room = {})
      : path_(std::move(path)), trusted_(trusted), room_(std::move(room)), stream_(loop) {}

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
  using ErrorCode = boost::system::error_code;
  using Stream = boost::beast::basic_stream<boost::asio::local::stream_protocol>;

  void Connect();
  void OnConnected(const ErrorCode& error);
  void Write();
  void Read();
  void OnHeader(const ErrorCode& error);
  void OnRead(const ErrorCode& error);
  // A connection that was kept may have been closed by the other end since.
  bool AskAgain();
  void Fail(const ErrorCode& error);
  void Finish(Result<http::Reply> result);
  void Drop();

  const std::string path_;
  const std::optional<uid_t> trusted_;
  std::optional<base::ByteRoom> room_;
  Stream stream_;
  std::optional<SocketServer> server_;
  bool is_connected_ = false;
  bool is_kept_ = false;  // from an earlier question
  boost::beast::http::request<boost::beast::http::empty_body> request_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser_;
  boost::beast::flat_buffer buffer_;
  std::optional<base::ByteRoom::Share> share_;
  size_t bytes_max_ = 0;
  Done done_;
};

}  // namespace stepwatch::operations
