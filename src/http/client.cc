#include "src/http/client.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "src/base/text.h"
#include "src/http/client_stream.h"

namespace stepwatch::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Enough for the latest values of a large model.
constexpr uint64_t kAnswerBytesMax = uint64_t{256} << 20;
// A stream sends a heartbeat every 15 s.
constexpr std::chrono::seconds kSilenceMax{35};
constexpr std::chrono::milliseconds kQuiet{100};
constexpr size_t kEventBytesMax = size_t{1} << 20;

}  // namespace

Result<Reply> Client::Ask(const ClientRequest& question, std::chrono::milliseconds time) const {
  auto connected = ConnectTo(path_, trusted_, Clock::now() + time);
  if (!connected.ok()) return connected.status();
  ClientStream& stream = connected.value();
  auto request = MakeRequest<beast::http::string_body>(beast::http::string_to_verb(question.method), question.target);
  if (!question.if_match.empty()) request.set(beast::http::field::if_match, "\"" + question.if_match + "\"");
  if (!question.request_id.empty()) request.set("Idempotency-Key", question.request_id);
  request.body() = question.body;
  request.prepare_payload();
  error_code unsent;
  beast::http::write(stream, request, unsent);  // a server that stops reading may still have responded
  boost::beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(kAnswerBytesMax);
  error_code error;
  beast::http::read(stream, buffer, parser, error);
  if (error) return NoAnswer(path_, unsent ? unsent : error);
  return Reply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

Status Client::Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet) const {
  auto connected = ConnectTo(path_, trusted_, Clock::now() + kUsualTime);
  if (!connected.ok()) return connected.status();
  ClientStream& stream = connected.value();
  auto request = MakeRequest<beast::http::empty_body>(beast::http::verb::get, "/v1/events");
  request.set("Last-Event-ID", std::to_string(after));
  error_code error;
  beast::http::write(stream, request, error);
  boost::beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::empty_body> parser;
  if (!error) beast::http::read_header(stream, buffer, parser, error);
  if (error) return NoAnswer(path_, error);
  if (parser.get().result() != beast::http::status::ok)
    return Status(StatusCode::kUnavailable, path_ + " sends no events: " + std::string(parser.get().reason()));

  std::string name, data;
  std::string text = boost::beast::buffers_to_string(buffer.data());
  Clock::time_point silent_since = Clock::now();
  for (;;) {
    size_t end = 0;
    while ((end = text.find('\n')) != std::string::npos) {
      const std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      silent_since = Clock::now();
      if (line.starts_with("event: "))
        name = line.substr(7);
      else if (line.starts_with("data: "))
        data = line.substr(6);
      else if (!line.empty() && !line.starts_with(':') && !line.starts_with("id: "))
        return Status(StatusCode::kInvalid,
                      path_ + " sent a line that is not part of an event: \"" + base::Printable(line) + "\"");
      if (!line.empty() || data.empty()) continue;
      if (!on_event(name, data)) return Status();
      name.clear();
      data.clear();
    }
    if (text.size() > kEventBytesMax) return Status(StatusCode::kInvalid, path_ + " sent an event that is too long");
    char bytes[4096];
    const Clock::time_point patience_ends = silent_since + kSilenceMax;
    stream.SetDeadline(on_quiet ? std::min(Clock::now() + kQuiet, patience_ends) : patience_ends);
    const size_t got = stream.read_some(boost::asio::buffer(bytes), error);
    if (error == boost::asio::error::eof) return Status();
    if (error == boost::asio::error::timed_out && on_quiet && Clock::now() < patience_ends) {
      if (!on_quiet()) return Status();
      continue;
    }
    if (error) return NoAnswer(path_, error);
    text.append(bytes, got);
  }
}

}  // namespace stepwatch::http
