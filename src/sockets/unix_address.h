// The address of a Unix socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <optional>
#include <string>

namespace stepwatch::sockets {

inline constexpr size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// nullopt if the path is too long.
inline std::optional<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  if (path.size() > kSocketPathBytesMax) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace stepwatch::sockets
