#include "src/http/client.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/system/system_error.hpp>
#include <string_view>
#include <utility>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/http/client_connection.h"
#include "src/sockets/peer.h"
#include "src/sockets/unix_address.h"

namespace stepwatch::http {
namespace {

namespace asio = boost::asio;
using Clock = ClientConnection::Clock;
using ErrorCode = ClientConnection::ErrorCode;

// The latest values of a large model.
constexpr uint64_t kAnswerBytesMax = uint64_t{256} << 20;
// A stream sends a heartbeat every 15 s.
constexpr std::chrono::seconds kSilenceMax{35};
constexpr std::chrono::milliseconds kQuiet{100};
constexpr size_t kEventBytesMax = size_t{1} << 20;

Status NoAnswer(const std::string& path, const ErrorCode& error) {
  if (error == boost::beast::error::timeout) return Status(StatusCode::kTimedOut, path + " has not answered in time");
  return Status(StatusCode::kUnavailable, path + " has not answered: " + error.message());
}

template <class Value>
Value RunToEnd(const std::string& path, const std::function<asio::awaitable<Value>(ClientConnection&)>& converse) {
  try {
    return RunWithConnection<Value>(converse);
  } catch (const boost::system::system_error& error) {  // no descriptors for a loop
    return base::ErrnoStatus("cannot make a socket for", path, error.code().value());
  }
}

asio::awaitable<Status> ConnectTo(ClientConnection& connection, const std::string& path, std::optional<uid_t> trusted,
                                  Clock::time_point deadline) {
  const std::optional<sockaddr_un> address = sockets::UnixAddress(path);
  if (!address) co_return Status(StatusCode::kOutOfRange, path + " is too long for the path of a socket");
  connection.SetDeadline(deadline);
  const ErrorCode error = co_await connection.Connect(*address);
  if (error == boost::beast::error::timeout)
    co_return Status(StatusCode::kTimedOut, path + ": timed out while connecting");
  if (error) co_return base::ErrnoStatus("cannot connect to", path, error.value());
  co_return CheckServer(path, sockets::PeerOf(connection.fd()), trusted);
}

// Parses a stream of events and passes each event on.
class EventReader {
 public:
  EventReader(std::string path, const Client::OnEvent& on_event) : path_(std::move(path)), on_event_(on_event) {}

  // Parses the next part of the stream. Returns the status with which the stream ended, or nullopt while it goes on.
  std::optional<Status> Take(std::string_view text_untrusted) {
    text_ += text_untrusted;
    size_t end = 0;
    while ((end = text_.find('\n')) != std::string::npos) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      last_line_ = Clock::now();
      if (line.starts_with("event: "))
        name_ = line.substr(7);
      else if (line.starts_with("data: "))
        data_ = line.substr(6);
      else if (!line.empty() && !line.starts_with(':') && !line.starts_with("id: "))
        return Status(StatusCode::kInvalid,
                      path_ + " sent a line that is not part of an event: \"" + base::Printable(line) + "\"");
      if (!line.empty() || data_.empty()) continue;
      if (!on_event_(name_, data_)) return Status();
      name_.clear();
      data_.clear();
    }
    if (text_.size() > kEventBytesMax) return Status(StatusCode::kInvalid, path_ + " sent an event that is too long");
    return std::nullopt;
  }
  Clock::time_point last_line() const { return last_line_; }

 private:
  const std::string path_;
  const Client::OnEvent& on_event_;
  std::string text_, name_, data_;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace

Result<DescribedReply> Client::RequestDescriptors(const ClientRequest& question, size_t count, uint64_t bytes_max,
                                                  std::chrono::milliseconds time) const {
  return RunToEnd<Result<DescribedReply>>(
      path_, [&](ClientConnection& connection) -> asio::awaitable<Result<DescribedReply>> {
        const Status connected = co_await ConnectTo(connection, path_, trusted_, Clock::now() + time);
        if (!connected.ok()) co_return connected;
        auto request = ClientConnection::MakeMessage(question.method, question.target);
        request.keep_alive(false);
        if (!question.if_match.empty())
          request.set(boost::beast::http::field::if_match, "\"" + question.if_match + "\"");
        if (!question.request_id.empty()) request.set("Idempotency-Key", question.request_id);
        request.body() = question.body;
        request.prepare_payload();
        ClientConnection::ReplyLimits limits;
        limits.body_bytes = bytes_max;
        limits.descriptors = count;
        ClientConnection::Received received = co_await connection.Ask(request, std::move(limits));
        if (received.error) co_return NoAnswer(path_, received.unsent ? received.unsent : received.error);
        co_return DescribedReply{std::move(received.reply), std::move(received.descriptors)};
      });
}

Result<Reply> Client::Ask(const ClientRequest& question, std::chrono::milliseconds time) const {
  Result<DescribedReply> asked = RequestDescriptors(question, 0, kAnswerBytesMax, time);
  if (!asked.ok()) return asked.status();
  return std::move(asked.value().reply);
}

Status Client::Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet) const {
  return RunToEnd<Status>(path_, [&](ClientConnection& connection) -> asio::awaitable<Status> {
    const Status connected = co_await ConnectTo(connection, path_, trusted_, Clock::now() + kUsualTime);
    if (!connected.ok()) co_return connected;
    auto request = ClientConnection::MakeMessage("GET", "/v1/events");
    request.keep_alive(false);
    request.set("Last-Event-ID", std::to_string(after));
    const ClientConnection::Stream stream = co_await connection.Open(request);
    if (stream.error) co_return NoAnswer(path_, stream.error);
    if (stream.status != 200) co_return Status(StatusCode::kUnavailable, path_ + " sends no events: " + stream.reason);
    EventReader reader(path_, on_event);
    std::optional<Status> end = reader.Take(stream.text);
    char bytes[4096];
    while (!end) {
      connection.SetDeadline(reader.last_line() + kSilenceMax);
      const auto [error, got] = co_await connection.ReadSome(asio::buffer(bytes), on_quiet ? kQuiet : kSilenceMax);
      if (error == asio::error::eof) co_return Status();
      if (error == asio::error::operation_aborted) {
        if (on_quiet && !on_quiet()) co_return Status();
        continue;
      }
      if (error) co_return NoAnswer(path_, error);
      end = reader.Take({bytes, got});
    }
    co_return *end;
  });
}

}  // namespace stepwatch::http
