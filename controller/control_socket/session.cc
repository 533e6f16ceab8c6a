#include "controller/control_socket/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

#include "src/base/text.h"
#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

namespace beast = boost::beast;
using std::chrono::milliseconds;

// Beyond the header, what has arrived of the body with it.
constexpr size_t kBufferBytesMax = size_t{64} << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

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

std::string WithoutQuotes(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
}

}  // namespace

Session::Session(const Around* around, base::UnforkedFd fd, Caller caller)
    : around_(*around),
      fd_(std::move(fd)),
      caller_(std::move(caller)),
      socket_(*around->context),
      timer_(*around->context),
      buffer_(kBufferBytesMax) {
  ErrorCode error;
  socket_.assign(boost::asio::generic::stream_protocol(FamilyOf(fd_.get()), 0), fd_.get(), error);
  ended_ = static_cast<bool>(error);  // no memory, or no watch left
  is_known_ = caller_.gate == nullptr && caller_.access != sockets::Access::kNone;
}

Session::~Session() {
  End();
}

void Session::End() {
  if (std::exchange(ended_, true)) return;
  StopWaiting();
  // The socket must not close the descriptor: a fork would find a number that is another file's.
  ErrorCode ignored;
  (void)socket_.release(ignored);
  fd_.Reset();
  around_.on_end(this);
}

bool Session::IsSilent() const {
  char byte = 0;
  return awaits_request_ && ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

void Session::Start() {
  if (ended_) return around_.on_end(this);
  AwaitRequest();
}

void Session::Refuse(const http::Answer& answer) {
  if (ended_) return around_.on_end(this);
  Send(answer);
}

void Session::StartUrgent(const http::Answer& busy) {
  busy_ = busy;
  Start();
}

// --- time ---

void Session::Within(milliseconds time, void (Session::*on_time)()) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this(), wait = ++waits_, on_time](const ErrorCode& error) {
    const auto self = weak.lock();
    if (self && !error && !self->ended_ && self->waits_ == wait) (self.get()->*on_time)();
  });
}

void Session::StopWaiting() {
  ++waits_;
  timer_.cancel();
}

// The read ends with an error.
void Session::OnReadTime() {
  read_timed_out_ = true;
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void Session::OnWorkerTime() {
  ++questions_;
  const auto time = around_.limits->answer_time.count();
  Send(http::Busy(
      match_.route->changes
          ? fmt::format("the job has not answered within {} ms and continues with the request; repeat it with "
                        "the same Idempotency-Key to get its result",
                        time)
          : fmt::format("the job has not answered within {} ms; try again", time)));
}

// --- a request ---

void Session::AwaitRequest() {
  if (finishes_) return End();
  parser_.emplace();
  parser_->header_limit(around_.limits->header_bytes);
  parser_->body_limit(around_.limits->body_bytes);
  read_timed_out_ = false;
  if (buffer_.size() > 0) return ReadHeader();
  awaits_request_ = true;
  Within(busy_ ? around_.limits->linger_time : around_.limits->idle_time, &Session::End);
  socket_.async_wait(socket_.wait_read, [self = shared_from_this()](const ErrorCode& error) {
    if (self->ended_) return;
    if (error) return self->End();
    self->ReadHeader();
  });
}

void Session::ReadHeader() {
  awaits_request_ = false;
  Within(around_.limits->header_time, &Session::OnReadTime);
  beast::http::async_read_header(socket_, buffer_, *parser_,
                                 [self = shared_from_this()](const ErrorCode& error, size_t) {
                                   if (!self->ended_) self->OnHeader(error);
                                 });
}

void Session::OnHeader(const ErrorCode& error) {
  StopWaiting();
  if (error) return OnReadError(error);
  const auto& header = parser_->get();
  // What follows the answer to HEAD is no body to its sender, but the beginning of the next answer.
  keeps_alive_ = header.keep_alive() && header.method() != beast::http::verb::head && !busy_;
  if (const std::optional<http::Answer> refusal = Refusal()) {
    keeps_alive_ = keeps_alive_ && parser_->is_done();
    return Send(*refusal);
  }
  if (!parser_->is_done() && boost::beast::iequals(header[beast::http::field::expect], "100-continue"))
    return InviteBody();
  ReadBody();
}

std::optional<http::Answer> Session::Refusal() {
  const auto& header = parser_->get();
  if (caller_.gate != nullptr)
    if (std::optional<http::Answer> refusal = caller_.gate->Refusal(header)) return refusal;
  is_known_ = is_known_ || caller_.gate != nullptr;
  const std::string method(header.method_string());
  const std::string target(header.target());
  match_ = FindRoute(method, target);
  if (match_.route == nullptr)
    return match_.allow.empty() ? http::NoSuchPath(target) : http::NoSuchMethod(target, match_.allow);
  if (busy_ && !match_.route->is_urgent) return busy_;
  if (caller_.access != sockets::Access::kAll && (method != "GET" || match_.route->changes))
    return http::Forbidden("a user of the readers' group may use GET only; " + method +
                           " is reserved for the user that runs the job and for root");
  return std::nullopt;
}

void Session::InviteBody() {
  Within(around_.limits->send_time, &Session::End);
  boost::asio::async_write(socket_, boost::asio::buffer(kContinue),
                           [self = shared_from_this()](const ErrorCode& error, size_t) {
                             if (self->ended_) return;
                             if (error) return self->End();
                             self->ReadBody();
                           });
}

void Session::ReadBody() {
  if (parser_->is_done()) return Perform();
  Within(around_.limits->body_time, &Session::OnReadTime);
  beast::http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (!self->ended_) self->OnBody(error);
  });
}

void Session::OnBody(const ErrorCode& error) {
  StopWaiting();
  if (error) return OnReadError(error);
  Perform();
}

void Session::OnReadError(const ErrorCode& error) {
  keeps_alive_ = false;
  const http::Limits& limits = *around_.limits;
  if (read_timed_out_)
    return Send(
        http::TooSlow(fmt::format("the request was not complete within {} ms",
                                  (parser_->is_header_done() ? limits.body_time : limits.header_time).count())));
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow)
    return Send(
        http::HeaderTooLarge(fmt::format("the header of a request may have at most {} bytes", limits.header_bytes)));
  if (error == beast::http::error::body_limit)
    return Send(http::TooLarge(fmt::format("the body of a request may have at most {} bytes", limits.body_bytes)));
  if (IsMalformed(error)) return Send(http::BadRequest("malformed HTTP/1.1 request: " + error.message()));
  End();
}

Request Session::TakeRequest() {
  auto& sent = parser_->get();
  Request request;
  request.target = sent.target();
  request.parameter = std::move(match_.parameter);
  request.query = std::move(match_.query);
  request.body = std::move(sent.body());
  request.accept = sent[beast::http::field::accept];
  request.if_match = WithoutQuotes(sent[beast::http::field::if_match]);
  request.request_id = sent["Idempotency-Key"];
  request.peer = caller_.peer;
  request.access = caller_.access;
  if (match_.route->changes && caller_.peer) request.exe = sockets::ProgramOf(fd_.get(), *caller_.peer);
  return request;
}

void Session::Perform() {
  if (match_.route->way == Route::Way::kEvents) return StreamEvents();
  if (match_.route->way == Route::Way::kPulse) return AnswerPulse();
  Request request = TakeRequest();
  const bool is_at_once = match_.route->way == Route::Way::kAtOnce && !IsForRank0(*match_.route, *around_.place.job);
  if (!is_at_once) return AskWorker(std::move(request));
  Send(AnswerNow(*match_.route, request, *around_.place.job));
}

OnAnswer Session::AnswerTo(uint64_t question) {
  return [weak = weak_from_this(), owner = around_.place.owner, context = around_.context,
          question](const http::Answer& answer) {
    const std::shared_ptr<const void> alive = owner.lock();
    if (!alive) return;
    boost::asio::post(*context, [weak, answer = std::make_shared<http::Answer>(answer), question] {
      const auto self = weak.lock();
      if (!self || self->ended_ || self->questions_ != question) return;
      self->StopWaiting();
      self->Send(*answer);
    });
  };
}

void Session::AskWorker(Request request) {
  is_waiting_for_worker_ = true;
  if (!AnswerOnWorker(around_.place, *match_.route, std::move(request), AnswerTo(++questions_)))
    return Send(http::Busy("too many requests are waiting; try again"));
  Within(around_.limits->answer_time, &Session::OnWorkerTime);
}

// --- an answer ---

void Session::MakeResponse(const http::Answer& answer) {
  response_.emplace(static_cast<beast::http::status>(answer.status), 11);
  response_->set(beast::http::field::server, std::string("stepwatch/") + kVersion);
  response_->set(beast::http::field::content_type, answer.content_type);
  response_->set(beast::http::field::cache_control, "no-store");
  if (!answer.etag.empty()) response_->set(beast::http::field::etag, "\"" + answer.etag + "\"");
  if (!answer.allow.empty()) response_->set(beast::http::field::allow, answer.allow);
  if (!answer.authenticate.empty()) response_->set(beast::http::field::www_authenticate, answer.authenticate);
  if (answer.retry_after > 0) response_->set(beast::http::field::retry_after, std::to_string(answer.retry_after));
  response_->keep_alive(keeps_alive_ && !finishes_);
  response_->body() = answer.body;
  response_->prepare_payload();
}

void Session::Send(const http::Answer& answer) {
  is_waiting_for_worker_ = false;
  MakeResponse(answer);
  Within(around_.limits->send_time, &Session::End);
  beast::http::async_write(socket_, *response_, [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (!self->ended_) self->OnSent(error);
  });
}

void Session::OnSent(const ErrorCode& error) {
  StopWaiting();
  if (error) return End();
  const bool keeps_alive = response_->keep_alive();
  response_.reset();
  if (keeps_alive) return AwaitRequest();
  if (finishes_) return End();
  Linger();
}

void Session::Linger() {
  ErrorCode ignored;
  socket_.shutdown(socket_.shutdown_send, ignored);
  Within(around_.limits->linger_time, &Session::End);
  Discard();
}

void Session::Discard() {
  socket_.async_read_some(boost::asio::buffer(discarded_), [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (self->ended_) return;
    if (error) return self->End();
    self->Discard();
  });
}

void Session::Finish() {
  finishes_ = true;
  if (streams_) return Wake();
  if (!response_ && !is_waiting_for_worker_) End();
}

}  // namespace stepwatch::control_socket
