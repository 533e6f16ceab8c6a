// A listening TCP socket at one address.
#pragma once

#include <string>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

class TcpListener {
 public:
  // Listens at "127.0.0.1:9464", "[::1]:9464" or "localhost:9464" (which is the first of these). Port 0 picks a free
  // one.
  static Result<TcpListener> Open(const std::string& where);

  TcpListener() = default;
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  // With the actual port.
  const std::string& address() const { return address_; }
  // True if only this machine can reach it.
  bool is_loopback() const { return is_loopback_; }
  void Close() { fd_.Reset(); }

 private:
  base::UnforkedFd fd_;
  std::string address_;
  bool is_loopback_ = false;
};

// Configures a connection: responses are sent at once, and a peer that vanished is detected within `silence_ms`.
void SetUpConnection(int fd, int silence_ms);

}  // namespace stepwatch::sockets
