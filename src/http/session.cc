#include "src/http/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <sstream>
#include <string_view>
#include <utility>

namespace stepwatch::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using std::chrono::milliseconds;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// Maximum size of the header and of the part of the body that arrived with it.
constexpr size_t kBufferBytesMax = size_t{64} << 10;
// A larger body reserves its memory in the budget that all bodies share.
constexpr uint64_t kSmallBodyBytesMax = uint64_t{64} << 10;
constexpr size_t kDescriptorsMax = 2;
// A timeout cancels the operation that runs at that moment. A composed operation may be between two of its steps, so
// the cancellation is repeated.
constexpr milliseconds kCancelAgain{10};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kStreamHeader =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";

bool IsMalformed(const boost::system::error_code& error) {
  return error.category() == beast::http::make_error_code(beast::http::error::bad_method).category() &&
         error != beast::http::error::end_of_stream && error != beast::http::error::partial_message;
}

int FamilyOf(int fd) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  (void)::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

beast::http::response<beast::http::string_body> MakeResponse(Answer answer, const std::string& server,
                                                             bool keeps_alive) {
  using beast::http::field;
  beast::http::response<beast::http::string_body> response(static_cast<beast::http::status>(answer.status), 11);
  response.set(field::server, server);
  response.set(field::content_type, answer.content_type);
  response.set(field::cache_control, "no-store");
  if (answer.content_type.starts_with("text/html")) {
    // A page runs no script, loads nothing, appears in no frame, and posts only to this server. Its address may be a
    // secret.
    response.set("Content-Security-Policy",
                 "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    response.set("Referrer-Policy", "no-referrer");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
  }
  if (!answer.etag.empty()) response.set(field::etag, "\"" + answer.etag + "\"");
  if (!answer.allow.empty()) response.set(field::allow, answer.allow);
  if (!answer.authenticate.empty()) response.set(field::www_authenticate, answer.authenticate);
  if (answer.retry_after > 0) response.set(field::retry_after, std::to_string(answer.retry_after));
  response.keep_alive(keeps_alive);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

// Sends the first bytes of a text with descriptors; returns the result of sendmsg.
ssize_t SendBeside(int fd, std::string_view text, const std::vector<int>& descriptors) {
  const size_t bytes = sizeof(int) * std::min(descriptors.size(), kDescriptorsMax);
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kDescriptorsMax)] = {};
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
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

Session::Session(std::shared_ptr<const Shared> shared, base::UnforkedFd fd, Caller caller)
    : shared_(std::move(shared)),
      fd_(std::move(fd)),
      caller_(std::move(caller)),
      socket_(shared_->context),
      timer_(shared_->context),
      buffer_(kBufferBytesMax) {
  caller_.fd = fd_.get();
  ErrorCode error;
  socket_.assign(asio::generic::stream_protocol(FamilyOf(fd_.get()), 0), fd_.get(), error);
  ended_ = static_cast<bool>(error);  // no memory or epoll watch left
  is_known_ = caller_.gate == nullptr && caller_.access != sockets::Access::kNone;
}

Session::~Session() {
  End();
}

void Session::End() {
  if (std::exchange(ended_, true)) return;
  StopTimer();
  // The socket must not close the descriptor: after a fork its number may belong to another file.
  ErrorCode ignored;
  (void)socket_.release(ignored);
  fd_.Reset();
  shared_->on_end(this);
}

bool Session::IsSilent() const {
  char byte = 0;
  return awaits_request_ && ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

void Session::Start() {
  awaits_request_ = true;
  Run(std::nullopt);
}

void Session::Reject(const Answer& answer) {
  Run(answer);
}

void Session::StartUrgent(const Answer& busy) {
  busy_ = busy;
  Start();
}

void Session::Run(std::optional<Answer> rejection) {
  if (ended_) return shared_->on_end(this);
  is_answering_ = rejection.has_value();
  asio::co_spawn(shared_->context, Converse(std::move(rejection)),
                 [self = shared_from_this()](const std::exception_ptr&) { self->End(); });
}

void Session::Wake() {
  if (awaits_events_) timer_.cancel();
}

void Session::Finish() {
  finishes_ = true;
  if (streams_) return Wake();
  if (!is_answering_) End();
}

// --- time ---

void Session::Within(milliseconds time) {
  has_timed_out_ = false;
  CancelAfter(time, ++waits_);
}

void Session::CancelAfter(milliseconds time, uint64_t wait) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this(), wait](const ErrorCode& error) {
    const auto self = weak.lock();
    if (!self || error || self->ended_ || self->waits_ != wait) return;
    self->has_timed_out_ = true;
    ErrorCode ignored;
    self->socket_.cancel(ignored);
    self->CancelAfter(kCancelAgain, wait);
  });
}

void Session::StopTimer() {
  ++waits_;
  timer_.cancel();
}

// --- a request ---

asio::awaitable<void> Session::Converse(std::optional<Answer> rejection) {
  bool goes_on = true;
  if (rejection) goes_on = co_await Send(*std::move(rejection));
  while (goes_on && co_await AwaitRequest()) goes_on = co_await AnswerRequest();
}

asio::awaitable<bool> Session::AwaitRequest() {
  if (finishes_ || ended_) co_return false;
  if (buffer_.size() > 0) co_return true;
  awaits_request_ = true;
  Within(busy_ ? shared_->limits.linger_time : shared_->limits.idle_time);
  const auto [error] = co_await socket_.async_wait(socket_.wait_read, kAwait);
  awaits_request_ = false;
  co_return !error && !ended_;
}

asio::awaitable<bool> Session::AnswerRequest() {
  const Limits& limits = shared_->limits;
  Parser parser;
  parser.header_limit(limits.header_bytes);
  parser.body_limit(caller_.access == sockets::Access::kAll ? limits.body_bytes
                                                            : std::min(limits.body_bytes, limits.reader_body_bytes));
  keeps_alive_ = false;
  Within(limits.header_time);
  auto [error, bytes] = co_await beast::http::async_read_header(socket_, buffer_, parser, kAwait);
  if (ended_) co_return false;
  if (error) {
    std::optional<Answer> answer = AnswerTo(error, false);
    if (answer) (void)co_await Send(*std::move(answer));
    co_return false;
  }
  const Head& head = parser.get();
  const bool has_body = !parser.is_done();
  // A response to HEAD has no body, so a client would read body bytes as the beginning of the next response.
  const bool may_keep_alive = head.method() != beast::http::verb::head && parser.get().keep_alive() && !busy_;
  Verdict verdict;
  const bool is_open = caller_.gate != nullptr && shared_->handler->AdmitsAnyone(head);
  if (caller_.gate != nullptr && !is_open) verdict.rejection = caller_.gate->Refusal(head);
  if (is_open && has_body && parser.content_length().value_or(limits.body_bytes) > kSmallBodyBytesMax)
    verdict.rejection = TooLarge(fmt::format("the body may have at most {} bytes", kSmallBodyBytesMax));
  is_known_ = is_known_ || (!verdict.rejection && !is_open);
  if (!verdict.rejection) verdict = shared_->handler->Accept(head, caller_, busy_ ? &*busy_ : nullptr);
  std::optional<base::ByteRoom::Share> share;
  const uint64_t body_bytes = has_body ? parser.content_length().value_or(limits.body_bytes) : 0;
  if (!verdict.rejection && shared_->bodies && body_bytes > kSmallBodyBytesMax) {
    base::ByteRoom bodies = *shared_->bodies;
    share = bodies.Take(body_bytes);
    if (!share) verdict.rejection = shared_->handler->WhenBodiesFull();
  }
  if (verdict.rejection) {
    keeps_alive_ = may_keep_alive && !has_body;
    const bool goes_on = co_await Send(*std::move(verdict.rejection));
    co_return goes_on;
  }
  // The client sends the body only after 100 Continue.
  if (has_body && beast::iequals(head[beast::http::field::expect], "100-continue")) {
    std::string invitation(kContinue);
    const bool is_invited = co_await SendText(std::move(invitation));
    if (!is_invited) co_return false;
  }
  if (has_body) {
    Within(limits.body_time);
    std::tie(error, bytes) = co_await beast::http::async_read(socket_, buffer_, parser, kAwait);
    if (ended_) co_return false;
    if (error) {
      std::optional<Answer> answer = AnswerTo(error, true);
      if (answer) (void)co_await Send(*std::move(answer));
      co_return false;
    }
  }
  StopTimer();
  keeps_alive_ = may_keep_alive;
  const bool goes_on = co_await Perform(parser, verdict.serve);
  co_return goes_on;
}

std::optional<Answer> Session::AnswerTo(const ErrorCode& error, bool has_header) const {
  const Limits& limits = shared_->limits;
  if (has_timed_out_)
    return TooSlow(fmt::format("the request was not complete within {} ms",
                               (has_header ? limits.body_time : limits.header_time).count()));
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow)
    return HeaderTooLarge(fmt::format("the header of a request may have at most {} bytes", limits.header_bytes));
  if (error == beast::http::error::body_limit)
    return TooLarge(fmt::format("the body of a request may have at most {} bytes", limits.body_bytes));
  if (IsMalformed(error)) return BadRequest("malformed HTTP/1.1 request: " + error.message());
  return std::nullopt;
}

asio::awaitable<bool> Session::Perform(Parser& parser, const Serve& serve) {
  auto& sent = parser.get();
  ++requests_;
  answer_.reset();
  is_answering_ = awaits_answer_ = true;
  Response response = serve({std::move(sent.base()), std::move(sent.body()), caller_}, Answerer());
  if (response.events) {
    is_answering_ = awaits_answer_ = false;
    co_await StreamEvents(std::move(response.events));
    co_return false;
  }
  if (!response.answer && !answer_) {
    const bool is_open = co_await AwaitAnswer(response.on_timeout);
    if (!is_open) co_return false;
  }
  awaits_answer_ = false;
  Answer answer = response.answer ? *std::move(response.answer) : *std::exchange(answer_, std::nullopt);
  bool goes_on = false;
  if (response.descriptors.empty())
    goes_on = co_await Send(std::move(answer));
  else
    goes_on = co_await SendWith(std::move(answer), std::move(response));
  co_return goes_on;
}

asio::awaitable<bool> Session::AwaitAnswer(const std::function<Answer()>& on_timeout) {
  timer_.expires_after(shared_->limits.answer_time);
  (void)co_await timer_.async_wait(kAwait);
  if (!ended_ && !answer_) answer_ = on_timeout();
  co_return !ended_;
}

OnAnswer Session::Answerer() {
  return [weak = weak_from_this(), owner = shared_->owner, context = &shared_->context,
          request = requests_](const Answer& answer) {
    const std::shared_ptr<const void> alive = owner.lock();
    if (!alive) return;
    asio::dispatch(*context, [weak, request, answer] {
      const auto self = weak.lock();
      if (!self || self->ended_ || !self->awaits_answer_ || self->requests_ != request) return;
      self->awaits_answer_ = false;
      self->answer_ = answer;
      self->timer_.cancel();
    });
  };
}

// --- an answer ---

asio::awaitable<bool> Session::Send(Answer answer) {
  is_answering_ = true;
  auto response = MakeResponse(std::move(answer), shared_->name, keeps_alive_ && !finishes_);
  Within(shared_->limits.send_time);
  const auto [error, bytes] = co_await beast::http::async_write(socket_, response, kAwait);
  is_answering_ = false;
  if (error || ended_) co_return false;
  if (response.keep_alive()) co_return true;
  if (!finishes_) co_await Linger();
  co_return false;
}

asio::awaitable<bool> Session::SendWith(Answer answer, Response response) {
  const auto head = MakeResponse(std::move(answer), shared_->name, keeps_alive_ && !finishes_);
  std::ostringstream stream;
  stream << head;
  std::string text = stream.str();
  Within(shared_->limits.send_time);
  for (ssize_t sent = -1; sent < 0;) {
    const auto [error] = co_await socket_.async_wait(socket_.wait_write, kAwait);
    if (error || ended_) co_return false;
    sent = SendBeside(fd_.get(), text, response.descriptors);
    // Otherwise the client is gone, or too many descriptors of this user are in transit.
    if (sent < 0 && errno != EAGAIN) co_return false;
    if (sent >= 0) text.erase(0, static_cast<size_t>(sent));
  }
  response.keep.reset();
  const bool is_sent = co_await SendText(std::move(text));
  is_answering_ = false;
  if (!is_sent) co_return false;
  if (head.keep_alive()) co_return true;
  if (!finishes_) co_await Linger();
  co_return false;
}

asio::awaitable<bool> Session::SendText(std::string text) {
  Within(shared_->limits.send_time);
  const auto [error, bytes] = co_await asio::async_write(socket_, asio::buffer(text), kAwait);
  co_return !error && !ended_;
}

// Only the text being sent is kept for a reader. A reader that does not read for a while is disconnected and may
// reconnect.
asio::awaitable<void> Session::StreamEvents(EventSource events) {
  streams_ = true;
  Discard();  // ignores the reader's input and notices the end of the connection
  std::string text(kStreamHeader);
  while (!ended_) {
    const std::optional<std::string> more = events();
    if (!more) co_return;
    text += *more;
    if (text.empty() && finishes_) co_return;
    if (text.empty()) {
      StopTimer();
      timer_.expires_after(shared_->limits.heartbeat);
      awaits_events_ = true;
      const auto [woken] = co_await timer_.async_wait(kAwait);
      awaits_events_ = false;
      if (ended_) co_return;
      if (woken) continue;
      text = shared_->heartbeat;
    }
    std::string page = std::exchange(text, {});
    const bool is_sent = co_await SendText(std::move(page));
    if (!is_sent) co_return;
  }
}

asio::awaitable<void> Session::Linger() {
  ErrorCode ignored;
  socket_.shutdown(socket_.shutdown_send, ignored);
  Within(shared_->limits.linger_time);
  for (;;) {
    const auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(discarded_), kAwait);
    if (error || ended_ || has_timed_out_) co_return;
  }
}

void Session::Discard() {
  socket_.async_read_some(asio::buffer(discarded_), [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (self->ended_) return;
    if (error) return self->End();
    self->Discard();
  });
}

}  // namespace stepwatch::http
