#include "operations/intake/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "operations/intake/routes.h"
#include "src/http/answers.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using http::Answer;
using ErrorCode = boost::system::error_code;
using Parser = beast::http::request_parser<beast::http::string_body>;
using Response = beast::http::response<beast::http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// Beyond the header, what has arrived of the body with it.
constexpr size_t kBufferBytesMax = size_t{64} << 10;
// A larger body takes its bytes from what all of them have.
constexpr uint64_t kSmallBodyBytesMax = uint64_t{64} << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kStreamHeader =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";

int FamilyOf(int fd) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  (void)::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

Response ResponseOf(const Answer& answer, bool keeps_alive) {
  Response response(static_cast<beast::http::status>(answer.status), 11);
  response.set(beast::http::field::server, std::string("stepwatchd/") + kVersion);
  response.set(beast::http::field::content_type, answer.content_type);
  response.set(beast::http::field::cache_control, "no-store");
  if (!answer.allow.empty()) response.set(beast::http::field::allow, answer.allow);
  if (!answer.authenticate.empty()) response.set(beast::http::field::www_authenticate, answer.authenticate);
  if (answer.retry_after > 0) response.set(beast::http::field::retry_after, std::to_string(answer.retry_after));
  response.keep_alive(keeps_alive);
  response.body() = answer.body;
  response.prepare_payload();
  return response;
}

// What to say to whoever could not be understood; nothing: nobody is there any more.
std::optional<Answer> AnswerTo(const ErrorCode& error, const http::Limits& limits) {
  if (error == beast::error::timeout) return http::TooSlow("the request was not complete in time");
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow)
    return http::HeaderTooLarge(fmt::format("the header of a request may have at most {} bytes", limits.header_bytes));
  if (error == beast::http::error::body_limit)
    return http::TooLarge(fmt::format("the body of a request may have at most {} bytes", limits.body_bytes));
  const bool is_http = error.category() == beast::http::make_error_code(beast::http::error::bad_method).category();
  if (!is_http || error == beast::http::error::end_of_stream || error == beast::http::error::partial_message)
    return std::nullopt;
  return http::BadRequest("malformed HTTP/1.1 request: " + error.message());
}

}  // namespace

// The coroutines of a session.
struct IntakeConversation {
  using Stream = IntakeSession::Stream;

  std::shared_ptr<IntakeSession> session;

  const http::Limits& limits() const { return session->around_.limits; }
  Stream& stream() { return session->stream_; }

  asio::awaitable<void> Serve() {
    while (!session->closed_ && co_await AwaitRequest()) {
      Parser parser;
      parser.header_limit(limits().header_bytes);
      // Who may only read has nothing to send.
      const bool may_write = session->caller_.access == sockets::Access::kAll;
      parser.body_limit(may_write ? limits().body_bytes : std::min(limits().body_bytes, kSmallBodyBytesMax));
      std::optional<base::ByteRoom::Share> share;
      const std::optional<Answer> refusal = co_await Read(&parser, &share);
      const auto& header = parser.get();
      const bool understood = parser.is_done();
      if (!refusal && !understood) break;
      if (!refusal && IsEventStream(std::string(header.method_string()), std::string(header.target()))) {
        co_await StreamEvents(parser);
        break;
      }
      const bool keeps_alive = understood && header.keep_alive() && header.method() != beast::http::verb::head;
      Answer answer;
      if (refusal)
        answer = *refusal;
      else
        answer = co_await Perform(parser);
      const bool is_sent = co_await Send(std::move(answer), keeps_alive);
      if (!is_sent || !keeps_alive) break;
    }
    co_await Linger();
  }

  // The first byte of the next one.
  asio::awaitable<bool> AwaitRequest() {
    if (session->buffer_.size() > 0) co_return true;
    stream().expires_after(limits().idle_time);
    const auto [error, bytes] = co_await stream().async_read_some(session->buffer_.prepare(4096), kAwait);
    if (error) co_return false;
    session->buffer_.commit(bytes);
    co_return true;
  }

  // What to say instead of an answer. Nothing, and the parser is not done: nobody is there any more.
  asio::awaitable<std::optional<Answer>> Read(Parser* parser, std::optional<base::ByteRoom::Share>* share) {
    stream().expires_after(limits().header_time);
    if (const auto [error, bytes] =
            co_await beast::http::async_read_header(stream(), session->buffer_, *parser, kAwait);
        error)
      co_return AnswerTo(error, limits());
    const auto& header = parser->get();
    if (session->caller_.gate != nullptr)
      if (std::optional<Answer> refusal = session->caller_.gate->Refusal(header)) co_return refusal;
    session->is_known_ = true;
    const uint64_t body_bytes = parser->is_done() ? 0 : parser->content_length().value_or(limits().body_bytes);
    if (body_bytes > kSmallBodyBytesMax && !(*share = session->around_.room->Take(body_bytes))) {
      session->around_.service->CountLeftOut();
      co_return http::Busy("stepwatchd is reading other large bodies; try again in a second");
    }
    stream().expires_after(limits().body_time);
    if (!parser->is_done() && beast::iequals(header[beast::http::field::expect], "100-continue"))
      if (const auto [error, bytes] = co_await asio::async_write(stream(), asio::buffer(kContinue), kAwait); error)
        co_return std::nullopt;
    if (!parser->is_done())
      if (const auto [error, bytes] = co_await beast::http::async_read(stream(), session->buffer_, *parser, kAwait);
          error)
        co_return AnswerTo(error, limits());
    co_return std::nullopt;
  }

  asio::awaitable<Answer> Perform(Parser& parser) {
    struct Pending {
      std::optional<Answer> answer;
      asio::steady_timer timer;
    };
    auto& sent = parser.get();
    IntakeRequest request;
    request.method = std::string(sent.method_string());
    request.target = std::string(sent.target());
    request.body = std::move(sent.body());
    request.sent = std::string(sent["Stepwatch-Sent"]);
    request.may_write = session->caller_.access == sockets::Access::kAll;
    const auto pending = std::make_shared<Pending>(Pending{{}, asio::steady_timer(stream().get_executor())});
    pending->timer.expires_after(limits().answer_time);
    AnswerIntake(request, session->around_.service, [pending](Answer answer) {
      pending->answer = std::move(answer);
      pending->timer.cancel();
    });
    if (!pending->answer) co_await pending->timer.async_wait(kAwait);
    if (!pending->answer) pending->answer = http::Busy("stepwatchd did not respond in time; try again");
    co_return std::move(*pending->answer);
  }

  asio::awaitable<bool> Send(Answer answer, bool keeps_alive) {
    Response response = ResponseOf(answer, keeps_alive);
    stream().expires_after(limits().send_time);
    const auto [error, bytes] = co_await beast::http::async_write(stream(), response, kAwait);
    co_return !error;
  }

  asio::awaitable<bool> SendText(std::string text) {
    stream().expires_after(limits().send_time);
    const auto [error, bytes] = co_await asio::async_write(stream(), asio::buffer(text), kAwait);
    co_return !error;
  }

  asio::awaitable<void> StreamEvents(Parser& parser) {
    Service* service = session->around_.service;
    // Without a number: what comes from now on.
    int64_t last = service->incidents().number_last();
    const auto said = parser.get()["Last-Event-ID"];
    int64_t number = 0;
    const bool is_number = std::from_chars(said.data(), said.data() + said.size(), number).ec == std::errc();
    if (is_number && number >= 0 && number <= last) last = number;
    std::string header(kStreamHeader);
    const bool has_begun = co_await SendText(std::move(header));
    if (!has_begun) co_return;
    while (!session->closed_) {
      session->wake_.expires_after(limits().heartbeat);
      std::string text = EventTextAfter(&last, service);
      if (text.empty()) {
        const auto [error] = co_await session->wake_.async_wait(kAwait);
        if (session->closed_) co_return;
        if (error) continue;
        text = ": stepwatchd is running\n\n";
      }
      const bool is_sent = co_await SendText(std::move(text));
      if (!is_sent) co_return;
    }
  }

  // Closes when the other end has, so that it can read what it was told before it has sent all that it wants to.
  asio::awaitable<void> Linger() {
    ErrorCode ignored;
    stream().socket().shutdown(asio::socket_base::shutdown_send, ignored);
    stream().expires_after(limits().linger_time);
    session->buffer_.clear();
    for (;;) {
      const auto [error, bytes] = co_await stream().async_read_some(session->buffer_.prepare(4096), kAwait);
      if (error) break;
    }
    stream().close();
  }
};

IntakeSession::IntakeSession(asio::io_context& loop, const Around* around, int fd, Caller caller)
    : around_(*around), caller_(caller), stream_(loop), wake_(loop), buffer_(kBufferBytesMax) {
  stream_.socket().assign(asio::generic::stream_protocol(FamilyOf(fd), 0), fd);
}

void IntakeSession::Run(const std::shared_ptr<IntakeSession>& session, std::function<void()> on_end) {
  asio::co_spawn(
      session->stream_.get_executor(),
      [session]() -> asio::awaitable<void> {
        IntakeConversation conversation{session};
        co_await conversation.Serve();
      },
      [on_end = std::move(on_end)](const std::exception_ptr&) { on_end(); });
}

void IntakeSession::Close() {
  closed_ = true;
  wake_.cancel();
  stream_.close();
}

}  // namespace stepwatch::operations
