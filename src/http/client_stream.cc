#include "src/http/client_stream.h"

#include <unistd.h>

#include "src/sockets/peer.h"
#include "src/sockets/unix_address.h"

namespace stepwatch::http {
namespace {

// A uid that may stand for any user is not trusted.
bool IsTrusted(const std::optional<sockets::Peer>& server, std::optional<uid_t> trusted) {
  const uid_t self = ::geteuid();
  if (!server) return false;
  if (self == 0 || server->uid == 0) return true;
  return (server->uid == self || server->uid == trusted) && server->uid != sockets::OverflowUid();
}

}  // namespace

Result<ClientStream> ConnectTo(const std::string& path, std::optional<uid_t> trusted,
                               ClientStream::Clock::time_point deadline) {
  const std::optional<sockaddr_un> address = sockets::UnixAddress(path);
  if (!address) return Status(StatusCode::kOutOfRange, path + " is too long for the path of a socket");
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::ErrnoStatus("cannot make a socket for", path, errno);
  // EAGAIN: the queue of the listening socket is full.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno != EAGAIN && errno != EINTR) return base::ErrnoStatus("cannot connect to", path, errno);
    if (ClientStream::Clock::now() >= deadline)
      return Status(StatusCode::kTimedOut, path + ": timed out while connecting");
    (void)::poll(nullptr, 0, 1);
  }
  // The directory may have been tampered with, so the listener may be another user's.
  const std::optional<sockets::Peer> server = sockets::PeerOf(fd.get());
  if (!IsTrusted(server, trusted))
    return Status(StatusCode::kUnavailable, path + " is served by another user" +
                                                (server ? ", uid " + std::to_string(server->uid) : "") +
                                                "; the request was not sent");
  return ClientStream(std::move(fd), deadline);
}

Status NoAnswer(const std::string& path, const boost::system::error_code& error) {
  if (error == boost::asio::error::timed_out) return Status(StatusCode::kTimedOut, path + " has not answered in time");
  return Status(StatusCode::kUnavailable, path + " has not answered: " + error.message());
}

}  // namespace stepwatch::http
