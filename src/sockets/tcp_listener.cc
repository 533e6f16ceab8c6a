#include "src/sockets/tcp_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>

#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::sockets {
namespace {

using boost::asio::ip::tcp;

constexpr int kTcpBacklog = 128;

Status ListenerRefusal(const std::string& where, const std::string& why) {
  return Status(StatusCode::kInvalid, base::Printable(where, 200) + " " + why);
}

Result<tcp::endpoint> Parse(const std::string& where) {
  const size_t colon = where.rfind(':');
  std::string host = where.substr(0, colon);
  uint16_t port = 0;
  const char* const end = where.data() + where.size();
  const auto [stop, failure] = colon == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                          : std::from_chars(where.data() + colon + 1, end, port);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  // An IPv4 address in IPv6 form is checked as IPv4.
  const auto meant =
      !error && address.is_v6() && address.to_v6().is_v4_mapped()
          ? boost::asio::ip::address(boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()))
          : address;
  if (error || failure != std::errc() || stop != end || address.is_v6() != in_brackets)
    return ListenerRefusal(where, "is not an address and port, such as 127.0.0.1:9464, [::1]:9464 or localhost:9464");
  if (meant.is_unspecified())
    return ListenerRefusal(where, "stands for every address of this machine; name a single address");
  return tcp::endpoint(meant, port);
}

std::string TextOf(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

}  // namespace

Result<TcpListener> TcpListener::Open(const std::string& where) {
  auto parsed = Parse(where);
  if (!parsed.ok()) return parsed.status();
  tcp::endpoint endpoint = parsed.value();
  const auto failed = [&](const char* what) { return base::ErrnoStatus(what, TextOf(endpoint), errno); };
  TcpListener listener;
  listener.fd_ = base::UnforkedFd::Make(
      [&] { return ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP); });
  if (!listener.valid()) return failed("cannot make a socket for");
  // After a restart of the job, connections of the previous one may still be in TIME_WAIT.
  const int on = 1;
  (void)::setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.fd(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return failed("cannot bind");
  if (::listen(listener.fd(), kTcpBacklog) != 0) return failed("cannot listen at");
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(listener.fd(), endpoint.data(), &size) != 0) return failed("cannot read the port of");
  listener.address_ = TextOf(endpoint);
  listener.is_loopback_ = endpoint.address().is_loopback();
  return listener;
}

void SetUpConnection(int fd, int silence_ms) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

}  // namespace stepwatch::sockets
