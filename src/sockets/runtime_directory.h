// Where the sockets of running monitors lie: a directory of the user's own, which nobody else can enter, or which the
// users of one group may pass through to a socket whose name they know.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

// In the order in which they are tried: STEPWATCH_RUNTIME_DIR, if it is set, /run/user/UID/stepwatch,
// /tmp/stepwatch-UID. A monitor takes the first that is usable; whoever looks for monitors looks into all of them.
std::vector<std::string> RuntimeDirectories(uid_t uid);
// The one that STEPWATCH_RUNTIME_DIR names; empty: it names none.
std::string NamedRuntimeDirectory();
// Those of them that a group can be let through: nobody else enters /run/user/UID.
std::vector<std::string> SharedRuntimeDirectories(uid_t uid);

// Ok if the directory is one, no link, the user's own, and closed to everybody else: mode 0700, or 0710, with which the
// users of its group can neither list it nor put anything there.
Status CheckRuntimeDirectory(const std::string& path, uid_t uid, base::FileSystem& files = base::FileSystem::Real());

// The first that is there, or can be made, and passes the check. The refusal says of each why not.
Result<std::string> OpenRuntimeDirectory(const std::vector<std::string>& candidates, uid_t uid,
                                         base::FileSystem& files = base::FileSystem::Real());

// Lets the users of a group pass through a directory that has passed the check: mode 0710. Refused where the jobs of
// another group are there already, and where the group cannot be given to it.
Status LetGroupThrough(gid_t group, const std::string& path, base::FileSystem& files = base::FileSystem::Real());

// The owner of somebody's directory that the user has named, for clients. Refused if others than its owner can put a
// socket there.
Result<uid_t> OwnerOfRuntimeDirectory(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::sockets
