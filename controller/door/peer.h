// Who stands at the other end of a Unix socket, by the kernel's word.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace stepwatch::door {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};

// SO_PEERCRED; nothing if the kernel does not say.
std::optional<Peer> PeerOf(int fd);
using CredentialsOf = std::function<std::optional<Peer>(int fd)>;

// The program of the process at the other end of this socket; empty: nobody can tell. The process may have ended, and
// another may have its number: one that has not ended by the time when its program was read is the right one.
std::string ProgramOf(int fd, const Peer& peer);

// The uid that the kernel shows for users whom our user namespace does not know: it may be anybody.
uid_t OverflowUid();

// The owner of the process and root may do everything, anybody else nothing.
bool IsAllowed(const std::optional<Peer>& peer, uid_t owner, uid_t overflow);

}  // namespace stepwatch::door
