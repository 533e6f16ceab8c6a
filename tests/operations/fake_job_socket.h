// A control socket of a job that is not there: a small HTTP server on a Unix socket.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/sockets/unix_address.h"

namespace stepwatch::testing {

// The whole of an answer, or what shall be sent instead; empty: nothing is, ever.
using FakeAnswer = std::function<std::string(const std::string& target)>;

inline std::string HttpOk(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// An answer of /v1/beats with these lines, the first of which has the number `first`.
inline std::string Beats(const std::string& run, int rank, const std::vector<std::string>& lines, size_t since) {
  std::string body = "{\"version\":1,\"run\":\"" + run + "\",\"rank\":" + std::to_string(rank) +
                     ",\"next\":" + std::to_string(lines.size()) + ",\"newest\":" + std::to_string(lines.size()) +
                     ",\"lost\":0,\"dropped\":0,\"beats\":[";
  for (size_t i = since; i < lines.size(); ++i) body += (i > since ? "," : "") + lines[i];
  return HttpOk(body + "]}");
}

inline size_t SinceOf(const std::string& target) {
  const size_t at = target.find("since=");
  return at == std::string::npos ? 0 : std::stoul(target.substr(at + 6));
}

inline int ListenAt(const std::string& path) {
  const auto address = sockets::UnixAddress(path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!address || ::bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::listen(fd, 64) != 0)
    throw std::runtime_error("cannot listen at " + path);
  return fd;
}

// Answers until the other end closes.
inline void ServeConnection(int fd, const FakeAnswer& answer, std::chrono::milliseconds between_bytes) {
  std::string text;
  char bytes[4096];
  for (;;) {
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) break;
    text.append(bytes, static_cast<size_t>(got));
    const size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    const size_t blank = text.find(' ');
    const std::string reply = answer(text.substr(blank + 1, text.find(' ', blank + 1) - blank - 1));
    text.erase(0, end + 4);
    const size_t chunk = between_bytes.count() > 0 ? 1 : reply.size();
    for (size_t at = 0; at < reply.size(); at += chunk) {
      if (::send(fd, reply.data() + at, chunk, MSG_NOSIGNAL) < 0) break;
      if (between_bytes.count() > 0) std::this_thread::sleep_for(between_bytes);
    }
  }
  ::close(fd);
}

// Serves for ever: for a child process.
inline void ServeAt(int listener, const FakeAnswer& answer) {
  for (;;) {
    const int fd = ::accept(listener, nullptr, nullptr);
    if (fd >= 0) std::thread(ServeConnection, fd, answer, std::chrono::milliseconds(0)).detach();
  }
}

// Serves from a thread of this process until it goes.
class FakeJobSocket {
 public:
  FakeJobSocket(const std::string& path, FakeAnswer answer, std::chrono::milliseconds between_bytes = {})
      : listener_(ListenAt(path)), thread_([this, answer = std::move(answer), between_bytes] {
          std::vector<std::thread> threads;
          std::vector<int> open;
          while (!stops_) {
            pollfd waiting{listener_, POLLIN, 0};
            if (::poll(&waiting, 1, 10) <= 0) continue;
            const int fd = ::accept(listener_, nullptr, nullptr);
            ++connections;
            open.push_back(::dup(fd));
            threads.emplace_back(ServeConnection, fd, answer, between_bytes);
          }
          for (const int fd : open) ::shutdown(fd, SHUT_RDWR);
          for (std::thread& each : threads) each.join();
          for (const int fd : open) ::close(fd);
        }) {}
  ~FakeJobSocket() {
    stops_ = true;
    thread_.join();
    ::close(listener_);
  }

  std::atomic<int> connections{0};

 private:
  std::atomic<bool> stops_{false};
  const int listener_;
  std::thread thread_;
};

}  // namespace stepwatch::testing
