// TCP access to the control socket: one address, open while there is a usable token. Socket thread only.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "src/base/file_system.h"
#include "src/http/tcp_gate.h"
#include "src/http/tcp_options.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/tcp_listener.h"
#include "src/sockets/token_file.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::http {

class TcpEndpoint {
 public:
  struct Callbacks {
    sockets::Acceptor::OnConnection on_connection;
    sockets::Acceptor::MakeRoom make_room;
    // Reports, on change, the open address or why the endpoint is closed.
    std::function<void(const std::string& note)> on_note;
    // The token changed: connections authenticated with the old one are no longer valid.
    std::function<void()> on_new_token;
  };

  // `files` must outlive it.
  TcpEndpoint(TcpOptions options, uid_t owner, base::FileSystem& files, boost::asio::io_context& context,
              Callbacks callbacks);

  // Opens the endpoint if possible, and closes it when there is no token. Called periodically.
  void Tick();
  void Close();
  const TcpGate& gate() const { return gate_; }
  // Empty while closed.
  std::string address() const { return listener_.valid() ? listener_.address() : ""; }

 private:
  Status Open();
  void Note(const std::string& note);

  const TcpOptions options_;
  const Callbacks callbacks_;
  sockets::TokenFile token_;
  const TcpGate gate_;
  sockets::TcpListener listener_;
  sockets::Acceptor acceptor_;
  std::string last_note_;
};

}  // namespace stepwatch::http
