// A client of a Unix or TCP socket that sends any bytes, as hostile and broken clients do.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "src/base/file.h"
#include "src/sockets/unix_address.h"
#include "tests/catch.h"

namespace stepwatch::sockets {

// A client that sends any bytes.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = UnixAddress(path);
    REQUIRE(address);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0);
  }
  // Over TCP, at "127.0.0.1:4711".
  struct Tcp {
    std::string address;
  };
  explicit RawClient(const Tcp& tcp) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(tcp.address.substr(tcp.address.rfind(':') + 1))));
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  // False: the other end has closed.
  bool Send(const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t put = ::send(fd_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (put < 0) return false;
      sent += static_cast<size_t>(put);
    }
    return true;
  }
  int fd() const { return fd_.get(); }
  // Receives up to the end of the stream, or what has come if that takes too long.
  std::string ReceiveAll() {
    std::string received;
    char bytes[4096];
    for (;;) {
      pollfd waiting{fd_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20000) <= 0) return received + "(and then nothing for 20 s)";
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) return received;
      received.append(bytes, static_cast<size_t>(got));
    }
  }
  // Up to and with this text.
  std::string ReceiveUntil(const std::string& end) {
    std::string received;
    char byte = 0;
    while (received.find(end) == std::string::npos) {
      pollfd waiting{fd_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20000) <= 0) return received + "(and then nothing for 20 s)";
      if (::recv(fd_.get(), &byte, 1, 0) != 1) return received + "(and then the end)";
      received += byte;
    }
    return received;
  }

 private:
  base::UniqueFd fd_;
};

}  // namespace stepwatch::sockets
