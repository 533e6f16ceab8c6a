// One connection: receives requests and sends answers, one after another, each within a time limit. Loop thread only.
// A faulty or hostile client costs one connection for a limited time and limited memory: input is bounded, and output
// that the client does not read is not produced.
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
  // Shared by all sessions of a server.
  struct Shared {
    boost::asio::io_context& context;
    Handler* handler = nullptr;  // must outlive every open session
    Limits limits = {};
    std::string name = {};                      // of the server, for the header Server
    std::string heartbeat = {};                 // the comment that keeps an idle event stream open
    std::optional<base::ByteRoom> bodies = {};  // memory shared by large bodies; nullopt: no common limit
    // Locked while another thread delivers an answer, to keep the context alive; an answer is dropped once this
    // expired.
    std::weak_ptr<const void> owner = {};
    std::function<void(Session*)> on_end = {};  // called once, when the connection is closed
  };

  Session(std::shared_ptr<const Shared> shared, base::UnforkedFd fd, Caller caller);
  ~Session();

  void Start();
  // Instead of Start: sends this answer to any request, then closes.
  void Reject(const Answer& answer);
  // Instead of Start: performs one request if it is urgent, answers `busy` to any other, and closes.
  void StartUrgent(const Answer& busy);
  // Sends new events, if this session streams events.
  void Wake();
  // The server is closing: completes the answer in progress, sends the events so far, and reads no more requests.
  void Finish();
  // Closes at once.
  void End();
  // The client is identified, by its peer credentials or its token.
  bool is_known() const { return is_known_; }
  // True while the session waits for a request and has received no byte of it.
  bool IsSilent() const;

 private:
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void Run(std::optional<Answer> rejection);
  boost::asio::awaitable<void> Converse(std::optional<Answer> rejection);
  // False: no more requests will arrive.
  boost::asio::awaitable<bool> AwaitRequest();
  // Reads a request and answers it. True: another request may follow.
  boost::asio::awaitable<bool> AnswerRequest();
  boost::asio::awaitable<bool> Perform(Parser& parser, const Serve& serve);
  // Waits on the timer: the answer's arrival cancels it. False: the session has ended.
  boost::asio::awaitable<bool> AwaitAnswer(const std::function<Answer()>& on_timeout);
  // The returned function can be called on any thread; it delivers the answer if the session still waits for it.
  OnAnswer Answerer();
  boost::asio::awaitable<bool> Send(Answer answer);
  boost::asio::awaitable<bool> SendWith(Answer answer, Response response);
  boost::asio::awaitable<bool> SendText(std::string text);
  boost::asio::awaitable<void> StreamEvents(EventSource events);
  // Closes after the client has, so that a client that is still sending can read its answer first.
  boost::asio::awaitable<void> Linger();
  void Discard();

  // The answer to an unreadable request; nullopt: the client has disconnected.
  std::optional<Answer> AnswerTo(const ErrorCode& error, bool has_header) const;
  // The next awaited operation ends with an error after this time.
  void Within(std::chrono::milliseconds time);
  void CancelAfter(std::chrono::milliseconds time, uint64_t wait);
  void StopTimer();

  const std::shared_ptr<const Shared> shared_;
  base::UnforkedFd fd_;
  Caller caller_;
  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  uint64_t waits_ = 0;  // number of timer settings; a late handler finds another number
  boost::beast::flat_buffer buffer_;
  std::optional<Answer> busy_;    // the answer to requests that are not urgent
  std::optional<Answer> answer_;  // delivered by Answerer
  uint64_t requests_ = 0;         // number of requests; a late answer finds another number
  bool is_known_ = false;
  bool awaits_request_ = false;
  bool awaits_answer_ = false;
  bool is_answering_ = false;  // waits for an answer or sends one
  bool keeps_alive_ = false;
  bool has_timed_out_ = false;
  bool streams_ = false;
  bool awaits_events_ = false;
  bool finishes_ = false;
  bool ended_ = false;
  char discarded_[4096];
};

}  // namespace stepwatch::http
