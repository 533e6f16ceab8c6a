// One connection: requests in, answers out, one after the other, each within its time. On the thread of the loop.
//
// Whatever the other end does, or leaves undone, costs one connection for a limited time and a limited piece of memory:
// what it sends is bounded, what it does not read is not made.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/byte_room.h"
#include "src/base/unforked_fd.h"
#include "src/http/answers.h"
#include "src/http/handler.h"
#include "src/http/limits.h"

namespace stepwatch::http {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // What all sessions of a server share.
  struct Shared {
    boost::asio::io_context& context;
    Handler* handler = nullptr;  // outlives every session that has not ended
    Limits limits = {};
    std::string name = {};                      // of the server, in its answers
    std::string heartbeat = {};                 // the comment in a stream of events that has none for a while
    std::optional<base::ByteRoom> bodies = {};  // for large bodies; nothing: they take what they need
    // Keeps the context while another thread brings an answer, which is dropped once it has expired.
    std::weak_ptr<const void> owner = {};
    std::function<void(Session*)> on_end = {};  // the connection is closed; called once for each
  };

  Session(std::shared_ptr<const Shared> shared, base::UnforkedFd fd, Caller caller);
  ~Session();

  void Start();
  // Instead of Start: answers this, whatever is asked, and closes.
  void Reject(const Answer& answer);
  // Instead of Start: performs one request if it is urgent, answers `busy` to any other, and closes.
  void StartUrgent(const Answer& busy);
  // There are new events.
  void Wake();
  // The server closes: an answer that is under way and the events that have happened still leave, nothing else is
  // taken.
  void Finish();
  // Closes at once.
  void End();
  // It is known who this is: by the kernel's word, or by a token that was shown.
  bool is_known() const { return is_known_; }
  // Waits for a request of which no byte has come.
  bool IsSilent() const;

 private:
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void Run(std::optional<Answer> rejection);
  boost::asio::awaitable<void> Converse(std::optional<Answer> rejection);
  // False: no request comes any more.
  boost::asio::awaitable<bool> AwaitRequest();
  // Reads a request and answers it. True: another may follow.
  boost::asio::awaitable<bool> AnswerRequest();
  boost::asio::awaitable<bool> Perform(Parser& parser, const Serve& serve);
  // Of the timer, as nothing else is awaited. False: the session has ended.
  boost::asio::awaitable<bool> AwaitAnswer(const std::function<Answer()>& on_timeout);
  // Any thread: brings the answer to the request under way, if it is still waited for.
  OnAnswer Answerer();
  boost::asio::awaitable<bool> Send(Answer answer);
  boost::asio::awaitable<bool> SendWith(Answer answer, Response response);
  boost::asio::awaitable<bool> SendText(std::string text);
  boost::asio::awaitable<void> StreamEvents(EventSource events);
  // Closes when the other end has, so that it can read its answer before it has sent all that it wants to.
  boost::asio::awaitable<void> Linger();
  void Discard();

  // The answer to what could not be read; nothing: the other end has gone.
  std::optional<Answer> AnswerTo(const ErrorCode& error, bool has_header) const;
  // Whatever is awaited next ends with an error after this time.
  void Within(std::chrono::milliseconds time);
  void CancelAfter(std::chrono::milliseconds time, uint64_t wait);
  void StopTimer();

  const std::shared_ptr<const Shared> shared_;
  base::UnforkedFd fd_;
  Caller caller_;
  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  uint64_t waits_ = 0;  // numbers what the timer was set for: a handler that is late finds another number
  boost::beast::flat_buffer buffer_;
  std::optional<Answer> busy_;    // of what is not urgent
  std::optional<Answer> answer_;  // that was waited for
  uint64_t requests_ = 0;         // an answer that comes late finds another number
  bool is_known_ = false;
  bool awaits_request_ = false;
  bool awaits_answer_ = false;
  bool is_answering_ = false;  // waits for an answer, or sends one
  bool keeps_alive_ = false;
  bool has_timed_out_ = false;
  bool streams_ = false;
  bool awaits_events_ = false;
  bool finishes_ = false;
  bool ended_ = false;
  char discarded_[4096];
};

}  // namespace stepwatch::http
