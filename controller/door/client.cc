#include "controller/door/client.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <system_error>

#include "controller/door/peer.h"
#include "controller/door/unix_address.h"
#include "src/base/file.h"

namespace stepwatch::door {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// The latest values of a large model.
constexpr uint64_t kReplyBytesMax = uint64_t{256} << 20;
// A stream says something every 15 s.
constexpr std::chrono::seconds kSilenceMax{60};
constexpr std::chrono::milliseconds kQuiet{100};
constexpr size_t kEventBytesMax = size_t{1} << 20;

// A connected socket whose every call ends at the deadline: a SyncStream of Beast.
class Stream {
 public:
  Stream(base::UniqueFd fd, Clock::time_point deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  void SetDeadline(Clock::time_point deadline) { deadline_ = deadline; }

  template <class Buffers>
  size_t read_some(const Buffers& buffers, error_code& error) {
    const boost::asio::mutable_buffer buffer = First<boost::asio::mutable_buffer>(buffers);
    error = {};
    if (buffer.size() == 0) return 0;
    const ssize_t got = Repeat(POLLIN, error, [&] { return ::recv(fd_.get(), buffer.data(), buffer.size(), 0); });
    if (got == 0 && !error) error = boost::asio::error::eof;
    return got > 0 ? static_cast<size_t>(got) : 0;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, error_code& error) {
    const boost::asio::const_buffer buffer = First<boost::asio::const_buffer>(buffers);
    error = {};
    if (buffer.size() == 0) return 0;
    const ssize_t put =
        Repeat(POLLOUT, error, [&] { return ::send(fd_.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL); });
    return put > 0 ? static_cast<size_t>(put) : 0;
  }
  // Beast asks for these, and calls the others.
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    error_code error;
    const size_t got = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return got;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {
    error_code error;
    const size_t put = write_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return put;
  }

 private:
  // The first that is not empty.
  template <class Buffer, class Buffers>
  static Buffer First(const Buffers& buffers) {
    for (auto each = boost::asio::buffer_sequence_begin(buffers); each != boost::asio::buffer_sequence_end(buffers);
         ++each)
      if (const Buffer buffer(*each); buffer.size() > 0) return buffer;
    return Buffer();
  }

  template <class Call>
  ssize_t Repeat(short wanted, error_code& error, const Call& call) {
    for (;;) {
      const ssize_t result = call();
      if (result >= 0) return result;
      if (errno == EINTR) continue;
      if (errno != EAGAIN) {
        error = error_code(errno, boost::system::system_category());
        return -1;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      pollfd waiting{fd_.get(), wanted, 0};
      if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30))) == 0) {
        error = boost::asio::error::timed_out;
        return -1;
      }
    }
  }

  base::UniqueFd fd_;
  Clock::time_point deadline_;
};

// A uid that may be anybody is nobody's.
bool IsTrusted(const std::optional<Peer>& server, std::optional<uid_t> trusted) {
  const uid_t self = ::geteuid();
  if (!server) return false;
  if (self == 0 || server->uid == 0) return true;
  return (server->uid == self || server->uid == trusted) && server->uid != OverflowUid();
}

Result<Stream> Connect(const std::string& path, std::optional<uid_t> trusted, Clock::time_point deadline) {
  const std::optional<sockaddr_un> address = UnixAddress(path);
  if (!address) return Status(StatusCode::kOutOfRange, path + " is too long for the path of a socket");
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::ErrnoStatus("cannot make a socket for", path, errno);
  // EAGAIN: as many wait to be let in as may.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno != EAGAIN && errno != EINTR) return base::ErrnoStatus("cannot connect to", path, errno);
    if (Clock::now() >= deadline) return Status(StatusCode::kTimedOut, path + " lets nobody in");
    (void)::poll(nullptr, 0, 1);
  }
  // Whoever listens could be somebody else, in a directory that is not what it was.
  const std::optional<Peer> server = PeerOf(fd.get());
  if (!IsTrusted(server, trusted))
    return Status(StatusCode::kUnavailable, path + " is served by another user" +
                                                (server ? ", uid " + std::to_string(server->uid) : "") +
                                                ", and is not asked");
  return Stream(std::move(fd), deadline);
}

Status Failure(const std::string& path, const error_code& error) {
  if (error == boost::asio::error::timed_out) return Status(StatusCode::kTimedOut, path + " has not answered in time");
  return Status(StatusCode::kUnavailable, path + " has not answered: " + error.message());
}

template <class Body>
http::request<Body> MakeRequest(http::verb verb, const std::string& target) {
  http::request<Body> request(verb, target, 11);
  request.set(http::field::host, "stepwatch");
  request.keep_alive(false);
  return request;
}

}  // namespace

Result<Reply> Client::Ask(const Question& question, std::chrono::milliseconds time) const {
  auto connected = Connect(path_, trusted_, Clock::now() + time);
  if (!connected.ok()) return connected.status();
  Stream& stream = connected.value();
  auto request = MakeRequest<http::string_body>(http::string_to_verb(question.method), question.target);
  if (!question.if_match.empty()) request.set(http::field::if_match, "\"" + question.if_match + "\"");
  if (!question.request_id.empty()) request.set("Idempotency-Key", question.request_id);
  request.body() = question.body;
  request.prepare_payload();
  error_code unsent;
  http::write(stream, request, unsent);  // who refuses to read on may have answered nevertheless
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kReplyBytesMax);
  error_code error;
  http::read(stream, buffer, parser, error);
  if (error) return Failure(path_, unsent ? unsent : error);
  return Reply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

Status Client::Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet) const {
  auto connected = Connect(path_, trusted_, Clock::now() + kUsualTime);
  if (!connected.ok()) return connected.status();
  Stream& stream = connected.value();
  auto request = MakeRequest<http::empty_body>(http::verb::get, "/v1/events");
  if (after > 0) request.set("Last-Event-ID", std::to_string(after));
  error_code error;
  http::write(stream, request, error);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::empty_body> parser;
  if (!error) http::read_header(stream, buffer, parser, error);
  if (error) return Failure(path_, error);
  if (parser.get().result() != http::status::ok)
    return Status(StatusCode::kUnavailable, path_ + " tells no events: " + std::string(parser.get().reason()));

  std::string name, data;
  std::string text = boost::beast::buffers_to_string(buffer.data());
  Clock::time_point silent_since = Clock::now();
  for (;;) {
    size_t end = 0;
    while ((end = text.find('\n')) != std::string::npos) {
      const std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      if (line.starts_with("event: ")) name = line.substr(7);
      if (line.starts_with("data: ")) data = line.substr(6);
      if (!line.empty() || data.empty()) continue;
      if (!on_event(name, data)) return Status();
      name.clear();
      data.clear();
    }
    if (text.size() > kEventBytesMax) return Status(StatusCode::kInvalid, path_ + " tells events without an end");
    char bytes[4096];
    const Clock::time_point patience_ends = silent_since + kSilenceMax;
    stream.SetDeadline(on_quiet ? std::min(Clock::now() + kQuiet, patience_ends) : patience_ends);
    const size_t got = stream.read_some(boost::asio::buffer(bytes), error);
    if (error == boost::asio::error::eof) return Status();
    if (error == boost::asio::error::timed_out && on_quiet && Clock::now() < patience_ends) {
      if (!on_quiet()) return Status();
      continue;
    }
    if (error) return Failure(path_, error);
    silent_since = Clock::now();
    text.append(bytes, got);
  }
}

}  // namespace stepwatch::door
