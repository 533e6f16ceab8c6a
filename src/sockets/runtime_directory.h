// The directory for the sockets of running monitors. It is owned by the user; other users cannot enter it, except that
// the users of one group may be allowed to pass through to a socket whose name they know.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

// In order of preference: STEPWATCH_RUNTIME_DIR, if set, /run/user/UID/stepwatch, /tmp/stepwatch-UID. A monitor uses
// the first usable one; clients search all of them.
std::vector<std::string> RuntimeDirectories(uid_t uid);
// The value of STEPWATCH_RUNTIME_DIR; empty if unset.
std::string NamedRuntimeDirectory();
// The directories that can be opened to a group; /run/user/UID is not among them, as other users cannot enter it.
std::vector<std::string> SharedRuntimeDirectories(uid_t uid);

// Ok if the path is a directory, not a link, owned by the user, and closed to others: mode 0700, or 0710, with which
// the users of its group can neither list it nor create files in it.
Status CheckRuntimeDirectory(const std::string& path, uid_t uid, base::FileSystem& files = base::FileSystem::Real());

// Returns the first directory that exists, or can be created, and passes the check. The error gives a reason for each.
Result<std::string> OpenRuntimeDirectory(const std::vector<std::string>& candidates, uid_t uid,
                                         base::FileSystem& files = base::FileSystem::Real());

// Lets the users of a group pass through a directory that has passed the check: mode 0710. Fails if it already serves
// another group, or its group cannot be changed.
Status LetGroupThrough(gid_t group, const std::string& path, base::FileSystem& files = base::FileSystem::Real());

// For clients: the owner of a directory that the user named, which may belong to another user. Fails if users other
// than its owner can create a socket there.
Result<uid_t> OwnerOfRuntimeDirectory(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::sockets
