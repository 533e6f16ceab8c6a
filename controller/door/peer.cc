#include "controller/door/peer.h"

#include <sys/socket.h>

#include <cstdlib>

#include "src/base/file.h"

namespace stepwatch::door {

std::optional<Peer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return Peer{credentials.pid, credentials.uid};
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
