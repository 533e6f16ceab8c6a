// The answer of a session that takes descriptors along: those of the pulse, with the first byte of the answer. Who does
// not ask for them, as curl, gets the answer alone.
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "controller/control_socket/beat_routes.h"
#include "controller/control_socket/session.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {
namespace {

constexpr size_t kDescriptorsMax = 2;

// Of the first bytes of a text, with descriptors beside them; what sendmsg returns.
ssize_t SendWith(int fd, const std::string& text, const PulseGrant& grant) {
  std::array<int, kDescriptorsMax> descriptors{grant.page_fd, grant.names_fd};
  const size_t bytes = sizeof(int) * (grant.names_fd < 0 ? 1 : 2);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> room{};
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

}  // namespace

void Session::AnswerPulse() {
  if (caller_.gate != nullptr)
    return Send(http::Forbidden("the pulse is passed as file descriptors, which requires the Unix socket"));
  grant_ = around_.place.job->Pulse();
  if (grant_->page_fd < 0) {
    grant_.reset();
    return Send(http::ErrorAnswer(
        404, "no_pulse", "this process has no pulse: it could not allocate shared memory; an event reports why"));
  }
  MakeResponse(PulseAnswer(*grant_));
  std::ostringstream text;
  text << *response_;
  stream_text_ = text.str();
  Within(around_.limits->send_time, &Session::End);
  AwaitPulseSend();
}

void Session::AwaitPulseSend() {
  socket_.async_wait(socket_.wait_write, [self = shared_from_this()](const ErrorCode& error) {
    if (self->ended_) return;
    if (error) return self->End();
    self->SendPulse();
  });
}

void Session::SendPulse() {
  const ssize_t sent = SendWith(fd_.get(), stream_text_, *grant_);
  if (sent < 0) {
    if (errno == EAGAIN) return AwaitPulseSend();
    return End();  // the other end is gone, or too many descriptors of this user are under way
  }
  grant_.reset();
  stream_text_.erase(0, static_cast<size_t>(sent));
  boost::asio::async_write(socket_, boost::asio::buffer(stream_text_),
                           [self = shared_from_this()](const ErrorCode& error, size_t) {
                             if (self->ended_) return;
                             self->stream_text_.clear();
                             self->OnSent(error);
                           });
}

}  // namespace stepwatch::control_socket
