// Connection of a client to the control socket: every call on it ends at a deadline.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/verb.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::http {

// A SyncStream of Beast.
class ClientStream {
 public:
  using Clock = std::chrono::steady_clock;
  using error_code = boost::system::error_code;

  ClientStream(base::UniqueFd fd, Clock::time_point deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  // Keeps up to `count` received descriptors; others are closed.
  void KeepDescriptors(size_t count) { descriptors_max_ = count; }
  std::vector<base::UniqueFd> TakeDescriptors() { return std::exchange(descriptors_, {}); }

  void SetDeadline(Clock::time_point deadline) { deadline_ = deadline; }

  template <class Buffers>
  size_t read_some(const Buffers& buffers, error_code& error) {
    const boost::asio::mutable_buffer buffer = First<boost::asio::mutable_buffer>(buffers);
    error = {};
    if (buffer.size() == 0) return 0;
    const ssize_t got = Repeat(POLLIN, error, [&] { return Receive(buffer); });
    if (got == 0 && !error) error = boost::asio::error::eof;
    return got > 0 ? static_cast<size_t>(got) : 0;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, error_code& error) {
    const boost::asio::const_buffer buffer = First<boost::asio::const_buffer>(buffers);
    error = {};
    if (buffer.size() == 0) return 0;
    const ssize_t put =
        Repeat(POLLOUT, error, [&] { return ::send(fd_.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL); });
    return put > 0 ? static_cast<size_t>(put) : 0;
  }
  // Required by Beast's SyncStream, which calls the overloads with an error code.
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    error_code error;
    const size_t got = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return got;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {
    error_code error;
    const size_t put = write_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return put;
  }

 private:
  // The first buffer that is not empty.
  template <class Buffer, class Buffers>
  static Buffer First(const Buffers& buffers) {
    for (auto each = boost::asio::buffer_sequence_begin(buffers); each != boost::asio::buffer_sequence_end(buffers);
         ++each)
      if (const Buffer buffer(*each); buffer.size() > 0) return buffer;
    return Buffer();
  }

  ssize_t Receive(const boost::asio::mutable_buffer& buffer) {
    if (descriptors_max_ == 0) return ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsOfMessage)> room{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return got;
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) Keep(*each);
    return got;
  }
  void Keep(const cmsghdr& header) {
    if (header.cmsg_level != SOL_SOCKET || header.cmsg_type != SCM_RIGHTS) return;
    const size_t count = (header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(&header) + i * sizeof(int), sizeof(int));
      base::UniqueFd kept(fd);
      if (descriptors_.size() < descriptors_max_) descriptors_.push_back(std::move(kept));
    }
  }

  template <class Call>
  ssize_t Repeat(short wanted, error_code& error, const Call& call) {
    for (;;) {
      const ssize_t result = call();
      if (result >= 0) return result;
      if (errno == EINTR) continue;
      if (errno != EAGAIN) {
        error = error_code(errno, boost::system::system_category());
        return -1;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      pollfd waiting{fd_.get(), wanted, 0};
      if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30))) == 0) {
        error = boost::asio::error::timed_out;
        return -1;
      }
    }
  }

  static constexpr size_t kDescriptorsOfMessage = 16;

  base::UniqueFd fd_;
  size_t descriptors_max_ = 0;
  std::vector<base::UniqueFd> descriptors_;
  Clock::time_point deadline_;
};

// `trusted`: see Client.
Result<ClientStream> ConnectTo(const std::string& path, std::optional<uid_t> trusted,
                               ClientStream::Clock::time_point deadline);
Status NoAnswer(const std::string& path, const boost::system::error_code& error);

template <class Body>
boost::beast::http::request<Body> MakeRequest(boost::beast::http::verb verb, const std::string& target) {
  boost::beast::http::request<Body> request(verb, target, 11);
  request.set(boost::beast::http::field::host, "stepwatch");
  request.keep_alive(false);
  return request;
}

}  // namespace stepwatch::http
