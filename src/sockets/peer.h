// Who stands at the other end of a Unix socket, by the kernel's word, and what that one may do.
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
  std::vector<gid_t> groups = {};  // the primary one and the others
};

// SO_PEERCRED and SO_PEERGROUPS; nothing if the kernel does not say.
std::optional<Peer> PeerOf(int fd);
using CredentialsOf = std::function<std::optional<Peer>(int fd)>;

// What this server says may be believed: it runs as this user, as root, or as the user that is named. A uid that may be
// anybody is nobody's.
bool IsTrustedServer(const std::optional<Peer>& server, std::optional<uid_t> trusted);

// The program of the process at the other end of this socket; empty: nobody can tell. The process may have ended, and
// another may have its number: one that has not ended by the time when its program was read is the right one.
std::string ProgramOf(int fd, const Peer& peer);

enum class Access : uint8_t {
  kNone,
  kRead,  // what GET answers
  kAll,
};

// Whom a control socket lets in.
struct Admission {
  uid_t owner = 0;
  std::optional<gid_t> readers;       // the group whose users may read
  std::optional<uid_t> overflow_uid;  // see OverflowUid
  std::optional<gid_t> overflow_gid;
};

// The owner and root may do everything, readers may read. Whom the kernel cannot name may do nothing.
Access AccessOf(const std::optional<Peer>& peer, const Admission& admission);
// The sentence for those who may not: "this job takes questions from …".
std::string WhoMayAsk(const Admission& admission);

// The id that the kernel shows for users (groups) whom our user namespace does not know: it may be anybody. Nothing
// where the namespace knows all of them, so that every id stands for itself.
std::optional<uid_t> OverflowUid();
std::optional<gid_t> OverflowGid();
// Of the text of /proc/self/uid_map: the namespace knows every id.
bool KnowsEverybody(std::string_view id_map);

// A group by its name or its number. May ask a server of names, and wait for it.
Result<gid_t> FindGroup(const std::string& name);

}  // namespace stepwatch::sockets
