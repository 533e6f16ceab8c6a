// An HTTP/1.1 server at a Unix socket, and at a TCP address where that is wanted. On the thread of its loop.
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
  // Opens the Unix socket. It may find that the readers' group has no way to it.
  std::function<Result<sockets::UnixListener>(sockets::Admission* admission)> bind;
  // Clients find the socket where it is.
  std::function<bool(const sockets::UnixListener& listener)> is_in_place;
  std::string name;       // the header Server
  std::string heartbeat;  // see Session::Shared
  Limits limits = {};
  std::optional<base::ByteRoom> bodies = {};  // see Session::Shared
  // A connection that waits for nothing ends where there is no room, or no descriptor, for another.
  bool sheds_silent = false;
  std::weak_ptr<const void> owner = {};                       // see Session::Shared
  std::function<void(const std::string& note)> on_note = {};  // of TCP: it is open, or cannot be
  sockets::CredentialsOf credentials_of = sockets::PeerOf;
  base::FileSystem* files = &base::FileSystem::Real();
};

class Server {
 public:
  // `handler` and the context outlive it; the context runs nothing any more when it is destroyed.
  Server(boost::asio::io_context& context, ServerOptions options, Handler* handler);
  ~Server() { Close(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the Unix socket anew.
  Status Open();
  // About once a second: opens the socket again if it is not in its place, looks after TCP and its token. Not Ok: why
  // there is no socket.
  Status Tick();
  // Until a tick it is closed.
  void SetTcp(TcpOptions tcp);
  // There are new events.
  void Wake();
  // Accepts nothing any more, lets answers under way leave, and calls `then` when all connections have ended.
  void Finish(std::function<void()> then);
  // Closes everything at once.
  void Close();

  const sockets::UnixListener& listener() const { return listener_; }
  std::string path() const { return listener_.valid() ? listener_.path() : ""; }
  // Empty: it is not open.
  std::string tcp_address() const { return tcp_ ? tcp_->address() : ""; }
  size_t connections() const { return connections_.size(); }
  // Whom it lets in; the owner of sockets and files.
  sockets::Admission& admission() { return admission_; }

 private:
  void AdmitPeer(base::UnforkedFd fd);
  void AdmitTcp(base::UnforkedFd fd);
  // `rejection`: the answer to this one, whatever it asks.
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
  std::shared_ptr<TcpEndpoint> tcp_;  // connections that are about to end still ask its gate
  std::function<void()> on_empty_;    // of Finish
};

}  // namespace stepwatch::http
