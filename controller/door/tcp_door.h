// The door's side to the network: one address, open while there is a usable token. Door thread only.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "controller/door/entrance.h"
#include "controller/door/tcp_gate.h"
#include "controller/door/tcp_listener.h"
#include "controller/door/tcp_options.h"
#include "controller/door/token_file.h"
#include "src/base/file_system.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::door {

class TcpDoor {
 public:
  struct Callbacks {
    Entrance::OnConnection on_connection;
    Entrance::MakeRoom make_room;
    // Where it is open, or why it is not: told when that changes.
    std::function<void(const std::string& note)> on_note;
    // Whoever came in has shown a token that is none any more.
    std::function<void()> on_new_token;
  };

  // `files` outlives it.
  TcpDoor(TcpOptions options, uid_t owner, base::FileSystem& files, boost::asio::io_context& context,
          Callbacks callbacks);

  // Opens the door if that can be, and closes it if there is no token any more. Called now and then.
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
  TokenFile token_;
  const TcpGate gate_;
  TcpListener listener_;
  Entrance entrance_;
  std::string last_note_;
};

}  // namespace stepwatch::door
