// Where the sockets of running monitors lie: a directory of the user's own, which nobody else can enter.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::door {

// In the order in which they are tried: STEPWATCH_RUNTIME_DIR, if it is set, /run/user/UID/stepwatch,
// /tmp/stepwatch-UID. A monitor takes the first that is usable; whoever looks for monitors looks into all of them.
std::vector<std::string> RuntimeDirectories(uid_t uid);

// Ok if the directory is one, no link, the user's own, and closed to everybody else (mode 0700).
Status CheckRuntimeDirectory(const std::string& path, uid_t uid, base::FileSystem& files = base::FileSystem::Real());

// The first that is there, or can be made, and passes the check. The refusal says of each why not.
Result<std::string> OpenRuntimeDirectory(const std::vector<std::string>& candidates, uid_t uid,
                                         base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::door
