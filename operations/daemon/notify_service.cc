#include "operations/daemon/notify_service.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "src/base/file.h"

namespace stepwatch::operations {

void NotifyService(const std::string& state) {
  const char* where = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  const size_t length = where == nullptr ? 0 : std::strlen(where);
  if (length == 0 || length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, where, length);
  // An abstract name begins with a zero byte, written as @.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return;
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

void NotifyReloading() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  NotifyService("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.tv_sec * 1000000 + now.tv_nsec / 1000));
}

}  // namespace stepwatch::operations
