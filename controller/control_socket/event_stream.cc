// The stream of events of a session: server-sent events. Nothing is kept for a reader but its place in the ring of the
// last events; one that the ring has overtaken, or that takes nothing for a while, is cut off and may come again.
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "controller/control_socket/json_values.h"
#include "controller/control_socket/session.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

constexpr size_t kEventsOfPage = 50;
constexpr std::string_view kStreamHeader =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";

std::string EventText(const NumberedEvent& each) {
  Json json = {{"version", http::kAnswerVersion}, {"id", each.id}};
  json.update(EventJson(each.event));
  if (each.peer) json["peer"] = PeerJson(*each.peer);
  return "id: " + std::to_string(each.id) + "\nevent: " + EventKindName(each.event.kind) +
         "\ndata: " + json::Dump(json) + "\n\n";
}

// Events that are not kept any more.
std::string GapText(uint64_t missed) {
  return "event: gap\ndata: " + json::Dump({{"version", http::kAnswerVersion}, {"missed", missed}}) + "\n\n";
}

uint64_t NumberOf(std::string_view text_untrusted) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text_untrusted.data(), text_untrusted.data() + text_untrusted.size(), number);
  return error == std::errc() && end == text_untrusted.data() + text_untrusted.size() ? number : 0;
}

}  // namespace

void Session::StreamEvents() {
  streams_ = true;
  const boost::beast::string_view last = parser_->get()["Last-Event-ID"];
  last_event_ = NumberOf({last.data(), last.size()});
  // A number of another monitor, which had this socket before: this one begins at its beginning.
  if (last_event_ > around_.place.job->EventsAfter(last_event_, 0).newest) last_event_ = 0;
  stream_text_ = kStreamHeader;
  Discard();  // whatever a reader of events sends; its end is noticed
  SendEvents();
}

void Session::Wake() {
  if (streams_ && !is_sending_ && !ended_) SendEvents();
}

void Session::SendEvents() {
  const EventPage page = around_.place.job->EventsAfter(last_event_, kEventsOfPage);
  std::string text = std::exchange(stream_text_, {});
  if (!page.events.empty()) {
    const uint64_t missed = page.events.front().id - last_event_ - 1;
    if (missed > 0 && has_begun_) return End();
    if (missed > 0) text += GapText(missed);
    last_event_ = page.events.back().id;
  }
  has_begun_ = true;
  for (const NumberedEvent& each : page.events) text += EventText(each);
  if (!text.empty()) return SendStreamText(std::move(text));
  if (finishes_) return End();
  Within(around_.limits->heartbeat, &Session::SendHeartbeat);
}

// A comment: shows both ends that the other one is there.
void Session::SendHeartbeat() {
  SendStreamText(": the control socket is open\n\n");
}

void Session::SendStreamText(std::string text) {
  is_sending_ = true;
  stream_text_ = std::move(text);
  Within(around_.limits->send_time, &Session::End);
  boost::asio::async_write(socket_, boost::asio::buffer(stream_text_),
                           [self = shared_from_this()](const ErrorCode& error, size_t) {
                             if (self->ended_) return;
                             if (error) return self->End();
                             self->is_sending_ = false;
                             self->stream_text_.clear();
                             self->SendEvents();
                           });
}

}  // namespace stepwatch::control_socket
