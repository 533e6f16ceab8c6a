// One connection: requests in, answers out, one after the other, each within its time. Socket thread only.
//
// Whatever the other end does, or leaves undone, costs one connection for a limited time and a limited piece of memory:
// what it sends is bounded, what it does not read is not made.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/control_socket/job.h"
#include "controller/control_socket/perform.h"
#include "controller/control_socket/routes.h"
#include "src/base/unforked_fd.h"
#include "src/http/answers.h"
#include "src/http/limits.h"
#include "src/http/tcp_gate.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // What all sessions of a control socket share; outlives them.
  struct Around {
    boost::asio::io_context* context = nullptr;
    const http::Limits* limits = nullptr;
    Workplace place;                       // its owner owns all of the above, too
    std::function<void(Session*)> on_end;  // the connection is closed; called once
  };

  // Who is at the other end.
  struct Caller {
    std::optional<sockets::Peer> peer;               // over a Unix socket
    sockets::Access access = sockets::Access::kAll;  // of that one, or of whoever the gate lets in
    const http::TcpGate* gate = nullptr;             // judges each request that comes over TCP; null over a Unix socket
  };

  Session(const Around* around, base::UnforkedFd fd, Caller caller);
  ~Session();

  void Start();
  // Instead of Start: says this, whatever is asked, and closes.
  void Refuse(const http::Answer& answer);
  // Instead of Start: performs one request if it is urgent, answers `busy` to any other, and closes.
  void StartUrgent(const http::Answer& busy);
  // There are new events.
  void Wake();
  // The control socket closes: an answer that is under way and the events that were told still leave, nothing else is
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

  void AwaitRequest();
  void ReadHeader();
  void OnHeader(const ErrorCode& error);
  // Invites the body that a careful client holds back until it is wanted.
  void InviteBody();
  void ReadBody();
  void OnBody(const ErrorCode& error);
  void OnReadError(const ErrorCode& error);
  // What to say to whoever may not ask this, or asks for what is not there; nothing: the request is performed.
  std::optional<http::Answer> Refusal();
  Request TakeRequest();
  void Perform();
  void AskWorker(Request request);
  // Any thread: brings an answer to the question of this number, if anybody still waits for it.
  OnAnswer AnswerTo(uint64_t question);
  void Send(const http::Answer& answer);
  void MakeResponse(const http::Answer& answer);
  void OnSent(const ErrorCode& error);
  // Closes when the other end has, so that it can read what it was told before it has sent all that it wants to.
  void Linger();
  void Discard();

  void AnswerPulse();
  void AwaitPulseSend();
  void SendPulse();

  void StreamEvents();
  void SendEvents();
  void SendStreamText(std::string text);

  // Calls `on_time` if nothing else is waited for until then.
  void Within(std::chrono::milliseconds time, void (Session::*on_time)());
  void StopWaiting();
  void OnReadTime();
  void OnWorkerTime();
  void SendHeartbeat();

  const Around& around_;
  base::UnforkedFd fd_;
  const Caller caller_;
  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  uint64_t waits_ = 0;  // numbers what the timer was set for: a handler that is late finds another number
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  Match match_;
  uint64_t questions_ = 0;  // to the worker: an answer that comes late finds another number
  bool is_known_ = false;
  std::optional<http::Answer> busy_;  // of what is not urgent
  bool awaits_request_ = false;
  bool keeps_alive_ = false;
  bool is_waiting_for_worker_ = false;
  bool read_timed_out_ = false;
  bool finishes_ = false;
  bool ended_ = false;

  std::optional<PulseGrant> grant_;  // whose descriptors the answer takes along

  // A stream of events.
  bool streams_ = false;
  bool is_sending_ = false;
  bool has_begun_ = false;   // the first page is on its way
  uint64_t last_event_ = 0;  // that was sent
  std::string stream_text_;
  char discarded_[4096];
};

}  // namespace stepwatch::control_socket
