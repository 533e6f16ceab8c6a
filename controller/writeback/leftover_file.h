// Cleans up temporary files of a process that was killed while it wrote them.
//
// Such a file never was the config, so no editor can have opened it under the config's name. It holds our text, or, if
// the displaced file of a write-back had lost its name, the only copy of a late edit. A file that is proven to be ours
// is removed: complete by the hash in its name, or the beginning of a text derived from the config's own text. Any
// other file is kept for people to inspect.
//
// The file of a living process is left alone. Its name identifies the process: a pid alone would be ambiguous across
// hosts, containers and boots.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "controller/writeback/displaced_file.h"

namespace stepwatch::writeback {

// Minimum time since the last change for files of a process that cannot be checked from here (other host or container).
constexpr std::chrono::hours kLeftoverAge{1};

// Cleans up beside the config at `path`, and returns findings about the files it kept. A kept file is renamed to a
// conflict name, so it is reported once. Only files of the config's owner and of this process's user count. On errors a
// file stays for the next process.
std::vector<DisplacedFile::Finding> TidyLeftovers(const std::string& path,
                                                  base::FileSystem& files = base::FileSystem::Real(),
                                                  std::chrono::milliseconds foreign_age = kLeftoverAge);

}  // namespace stepwatch::writeback
