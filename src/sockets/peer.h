// Peer credentials of a Unix socket, and what they authorise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::sockets {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  std::vector<gid_t> groups = {};  // primary and supplementary
};

// SO_PEERCRED and SO_PEERGROUPS; nullopt if the kernel does not provide them.
std::optional<Peer> PeerOf(int fd);
using CredentialsOf = std::function<std::optional<Peer>(int fd)>;

// True if data from this server may be trusted: it runs as this user, as root, or as the user `trusted`. The overflow
// uid, which may stand for any user, is rejected.
bool IsTrustedServer(const std::optional<Peer>& server, std::optional<uid_t> trusted);

// The program of the process at the other end of this socket; empty if unknown. The process may have ended and its pid
// been reused, so the result counts only if the process is still alive after its program was read.
std::string ProgramOf(int fd, const Peer& peer);

enum class Access : uint8_t {
  kNone,
  kRead,  // GET requests
  kAll,
};

// The users that a control socket admits.
struct Admission {
  uid_t owner = 0;
  std::optional<gid_t> readers;       // the group whose users may read
  std::optional<uid_t> overflow_uid;  // see OverflowUid
  std::optional<gid_t> overflow_gid;
};

// The owner and root may do everything, readers may read. A peer without credentials may do nothing.
Access AccessOf(const std::optional<Peer>& peer, const Admission& admission);
// The message for rejected peers: "this job accepts requests from …".
std::string WhoMayAsk(const Admission& admission);

// The id that the kernel shows for users (groups) that are not mapped in this user namespace: it may stand for any of
// them. nullopt if the namespace maps every id, so that each stands for itself.
std::optional<uid_t> OverflowUid();
std::optional<gid_t> OverflowGid();
// True if `id_map`, the text of /proc/self/uid_map, maps every id.
bool MapsAllIds(std::string_view id_map);

// Finds a group by name or number. May query a name server, and block on it.
Result<gid_t> FindGroup(const std::string& name);

}  // namespace stepwatch::sockets
