#include "operations/log_intake/nccl_ras.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "src/logs/clean_text.h"

namespace stepwatch::operations {
namespace {

using Clock = std::chrono::steady_clock;
using boost::asio::ip::tcp;

constexpr std::string_view kHello = "CLIENT PROTOCOL 2\n";
constexpr std::string_view kAccepted = "SERVER PROTOCOL ";
constexpr std::string_view kCommand = "VERBOSE STATUS\n";
constexpr size_t kLineBytesMax = 1024;

// The addresses to try, one after the other. Names other than localhost are not looked up, which could block.
std::vector<tcp::endpoint> EndpointsOf(const std::string& where) {
  const size_t colon = where.rfind(':');
  if (colon == std::string::npos) return {};
  const auto port = base::ParseNumber<uint16_t>(std::string_view(where).substr(colon + 1));
  std::string host = where.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (!port) return {};
  if (host == "localhost")
    return {{boost::asio::ip::address_v4::loopback(), *port}, {boost::asio::ip::address_v6::loopback(), *port}};
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return error ? std::vector<tcp::endpoint>() : std::vector<tcp::endpoint>{{address, *port}};
}

// A connection whose operations share a deadline.
class Connection {
 public:
  explicit Connection(Clock::time_point deadline) : deadline_(deadline) {}

  Status Connect(const tcp::endpoint& endpoint) {
    fd_ = base::UniqueFd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_.valid()) return Failed("cannot make a socket");
    if (::connect(fd_.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0) return Status();
    if (errno != EINPROGRESS) return Failed("cannot connect");
    if (Status status = Await(POLLOUT); !status.ok()) return status;
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return error == 0 ? Status() : Failed("cannot connect");
  }

  Status Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
      if (sent >= 0 || errno == EINTR) continue;
      if (errno != EAGAIN) return Failed("cannot send");
      if (Status status = Await(POLLOUT); !status.ok()) return status;
    }
    return Status();
  }

  // Some bytes; empty: the other end has closed.
  Result<std::string> Receive() {
    while (true) {
      std::array<char, 4096> bytes{};
      const ssize_t size = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
      if (size >= 0) return std::string(bytes.data(), static_cast<size_t>(size));
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return Failed("cannot receive");
      if (Status status = Await(POLLIN); !status.ok()) return status;
    }
  }

 private:
  static Status Failed(const char* what) { return base::ErrnoStatus(what, "", errno); }

  Status Await(short events) const {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (left.count() <= 0) return Status(StatusCode::kUnavailable, "it did not answer in time");
      pollfd waiting{fd_.get(), events, 0};
      if (::poll(&waiting, 1, static_cast<int>(left.count())) > 0) return Status();
    }
  }

  const Clock::time_point deadline_;
  base::UniqueFd fd_;
};

// Up to and with the line feed; the rest stays in `read`.
Result<std::string> TakeLine(Connection* connection, std::string* read) {
  size_t end = 0;
  while ((end = read->find('\n')) == std::string::npos) {
    if (read->size() > kLineBytesMax) return Status(StatusCode::kInvalid, "its first line does not end");
    Result<std::string> more = connection->Receive();
    if (!more.ok()) return more;
    if (more.value().empty()) return Status(StatusCode::kInvalid, "it closed the connection");
    *read += more.value();
  }
  std::string line = read->substr(0, end);
  read->erase(0, end + 1);
  return line;
}

}  // namespace

Result<std::string> AskNcclRas(const std::string& address, Clock::time_point deadline) {
  const std::vector<tcp::endpoint> endpoints = EndpointsOf(address);
  Connection connection(deadline);
  Status status(StatusCode::kInvalid, "the address is unusable");
  for (const tcp::endpoint& endpoint : endpoints)
    if (status = connection.Connect(endpoint); status.ok()) break;
  if (!status.ok()) return Status(endpoints.empty() ? StatusCode::kInvalid : StatusCode::kNotFound, status.message());
  if (status = connection.Send(kHello); !status.ok()) return status;
  std::string read;
  const Result<std::string> hello = TakeLine(&connection, &read);
  if (!hello.ok()) return hello;
  if (!hello.value().starts_with(kAccepted))
    return Status(StatusCode::kInvalid, "it is not NCCL's RAS: it answered " + base::Printable(hello.value()));
  if (status = connection.Send(kCommand); !status.ok()) return status;
  while (read.size() < kRasBytesMax) {
    const Result<std::string> more = connection.Receive();
    // A part of the answer is better than none.
    if (!more.ok() && read.empty()) return more;
    if (!more.ok() || more.value().empty()) break;
    read += more.value();
  }
  std::string text(logs::CutUtf8(logs::CleanText(read), kRasBytesMax));
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return Status(StatusCode::kInvalid, "its answer is empty");
  return text;
}

NcclRas::NcclRas(boost::asio::io_context& loop, Options options)
    : options_(std::move(options)), mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {}

NcclRas::~NcclRas() {
  mailbox_->Close();
  (void)thread_.Stop(Clock::now());
}

void NcclRas::Ask(const std::string& run) {
  if (options_.address.empty() || is_asking_) return;
  const auto answer = std::make_shared<Result<std::string>>(Status(StatusCode::kUnavailable, "no answer"));
  const auto done = [this, answer, run, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    is_asking_ = false;
    if (answer->ok()) return options_.report(run, answer->value());
    // Most jobs have none.
    if (answer->status().code() != StatusCode::kNotFound)
      options_.log("NCCL's RAS at " + base::Printable(options_.address, 200) + " has no answer about run " +
                   base::Printable(run, 200) + ": " + answer->status().message());
  };
  is_asking_ = thread_.Post([options = options_, answer, done, mailbox = mailbox_] {
    *answer = AskNcclRas(options.address, Clock::now() + options.time);
    mailbox->Post(done);
  });
}

}  // namespace stepwatch::operations
