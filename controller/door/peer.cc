#include "controller/door/peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <climits>
#include <cstdlib>

#include "src/base/file.h"
#include "src/base/unforked_fd.h"

namespace stepwatch::door {

std::optional<Peer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return Peer{credentials.pid, credentials.uid};
}

std::string ProgramOf(int fd, const Peer& peer) {
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, since Linux 6.5
  if (peer.pid <= 0) return "";
  const base::UnforkedFd process = base::UnforkedFd::Make([fd] {
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    return ::getsockopt(fd, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0 ? pidfd : -1;
  });
  if (!process.valid()) return "";
  std::string program(PATH_MAX, '\0');
  const std::string link = "/proc/" + std::to_string(peer.pid) + "/exe";
  const ssize_t length = base::FileSystem::Real().ReadLink(link.c_str(), program.data(), program.size());
  pollfd ended{process.get(), POLLIN, 0};
  if (length <= 0 || ::poll(&ended, 1, 0) != 0) return "";
  program.resize(static_cast<size_t>(length));
  return program;
}

uid_t OverflowUid() {
  constexpr uid_t kUsual = 65534;
  const Result<std::string> text = base::ReadFile("/proc/sys/kernel/overflowuid", 64);
  if (!text.ok()) return kUsual;
  const unsigned long uid = std::strtoul(text.value().c_str(), nullptr, 10);
  return uid == 0 ? kUsual : static_cast<uid_t>(uid);
}

bool IsAllowed(const std::optional<Peer>& peer, uid_t owner, uid_t overflow) {
  if (!peer || peer->uid == overflow) return false;
  return peer->uid == owner || peer->uid == 0;
}

}  // namespace stepwatch::door
