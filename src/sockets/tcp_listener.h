// A listening TCP socket at one address.
#pragma once

#include <string>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

class TcpListener {
 public:
  // At "127.0.0.1:9464", "[::1]:9464" or "localhost:9464" (which is the first of these). Port 0 takes a free one.
  static Result<TcpListener> Open(const std::string& where);

  TcpListener() = default;
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  // With the port that it got.
  const std::string& address() const { return address_; }
  // Only this machine can reach it.
  bool is_loopback() const { return is_loopback_; }
  void Close() { fd_.Reset(); }

 private:
  base::UnforkedFd fd_;
  std::string address_;
  bool is_loopback_ = false;
};

// Of a connection: an answer leaves at once, and an end that has vanished without a word is noticed within this time.
void SetUpConnection(int fd, int silence_ms);

}  // namespace stepwatch::sockets
