// The control socket's side to the network: one address, open while there is a usable token. Socket thread only.
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
    // Where it is open, or why it is not: told when that changes.
    std::function<void(const std::string& note)> on_note;
    // Whoever came in has shown a token that is none any more.
    std::function<void()> on_new_token;
  };

  // `files` outlives it.
  TcpEndpoint(TcpOptions options, uid_t owner, base::FileSystem& files, boost::asio::io_context& context,
              Callbacks callbacks);

  // Opens the control socket if that can be, and closes it if there is no token any more. Called now and then.
  void Tick();
  void Close();
  const TcpGate& gate() const { return gate_; }
  // Empty: it is not open.
  std::string address() const { return listener_.valid() ? listener_.address() : ""; }

 private:
  Status Open();
  void Note(const std::string& note);

  const TcpOptions options_;
  const Callbacks callbacks_;
  sockets::TokenFile token_;
  const TcpGate gate_;
  sockets::TcpListener listener_;
  sockets::Acceptor entrance_;
  std::string last_note_;
};

}  // namespace stepwatch::http
