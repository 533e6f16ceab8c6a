// An HTTP/1.1 server at a Unix socket and optionally at a TCP address. Loop thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/byte_room.h"
#include "src/base/file_system.h"
#include "src/base/unforked_fd.h"
#include "src/http/connections.h"
#include "src/http/handler.h"
#include "src/http/limits.h"
#include "src/http/session.h"
#include "src/http/tcp_endpoint.h"
#include "src/http/tcp_options.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/peer.h"
#include "src/sockets/unix_listener.h"
#include "stepwatch/status.h"

namespace stepwatch::http {

struct ServerOptions {
  // Opens the Unix socket. Removes the readers' group from `admission` if that group cannot reach the socket.
  std::function<Result<sockets::UnixListener>(sockets::Admission* admission)> bind;
  // True if clients can still find the socket at its path.
  std::function<bool(const sockets::UnixListener& listener)> is_in_place;
  std::string name;       // value of the header Server
  std::string heartbeat;  // see Session::Shared
  Limits limits = {};
  std::optional<base::ByteRoom> bodies = {};  // see Session::Shared
  // True: a connection between two requests is closed when a new one lacks a place or a descriptor.
  bool sheds_silent = false;
  std::weak_ptr<const void> owner = {};                       // see Session::Shared
  std::function<void(const std::string& note)> on_note = {};  // reports that TCP is open, or why it cannot be
  sockets::CredentialsOf credentials_of = sockets::PeerOf;
  base::FileSystem* files = &base::FileSystem::Real();
};

class Server {
 public:
  // `handler` and the context must outlive the server; the context must run no handler after its destruction.
  Server(boost::asio::io_context& context, ServerOptions options, Handler* handler);
  ~Server() { Close(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Closes the Unix socket, if it is open, and opens it again.
  Status Open();
  // Called about once a second: opens the socket again if it is not in its place, and maintains TCP and its token.
  // Returns the reason why there is no socket.
  Status Tick();
  // TCP stays closed until the next Tick.
  void SetTcp(TcpOptions tcp);
  // Sends new events to their readers.
  void Wake();
  // Accepts no more connections or requests, completes answers in progress, and calls `then` when all connections have
  // ended.
  void Finish(std::function<void()> then);
  // Closes everything at once.
  void Close();

  const sockets::UnixListener& listener() const { return listener_; }
  std::string path() const { return listener_.valid() ? listener_.path() : ""; }
  // Empty while TCP is closed.
  std::string tcp_address() const { return tcp_ ? tcp_->address() : ""; }
  size_t connections() const { return connections_.size(); }
  // The users that the server admits; also the owner of sockets and files.
  sockets::Admission& admission() { return admission_; }

 private:
  void AdmitPeer(base::UnforkedFd fd);
  void AdmitTcp(base::UnforkedFd fd);
  // `rejection`: the answer to any request on this connection.
  void Admit(base::UnforkedFd fd, Caller caller, const std::optional<Answer>& rejection);
  void CloseSockets();
  void EndAll(std::optional<Connections::Sort> sort);
  sockets::Acceptor::MakeRoom MakeRoom();

  boost::asio::io_context& context_;
  const ServerOptions options_;
  Handler* const handler_;
  sockets::Admission admission_;
  std::shared_ptr<const Session::Shared> shared_;
  Connections connections_;
  sockets::UnixListener listener_;
  sockets::Acceptor acceptor_;
  std::shared_ptr<TcpEndpoint> tcp_;  // shared with connections that are ending and still use its gate
  std::function<void()> on_empty_;    // the callback of Finish
};

}  // namespace stepwatch::http
