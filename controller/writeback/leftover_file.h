// The temporary files of a process that was killed while it wrote them.
//
// Such a file is no config and never was one, so no editor can have opened it under the config's name. It holds a text
// of ours, or, where the file that a write-back had displaced had lost its name, the only copy of a late edit. What is
// proven to be ours, whole by the hash in its name or else as the beginning of a text that the config's own text
// gives, is removed; whatever else it holds is kept for people to look at.
//
// The file of a living process is left alone. Who wrote it is known by its name: a pid alone would be anybody's, of
// another host, another container, another start of the machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "controller/writeback/displaced_file.h"

namespace stepwatch::writeback {

// For how long nobody must have touched the file of a process that cannot be looked for from here.
constexpr std::chrono::hours kLeftoverAge{1};

// Tidies up beside the config at `path`, and answers what is worth telling: which file was kept. It is named as a
// conflict is then, so nobody is told of it again. Only files of the config's owner, and this process's user, count.
// Errors mean that a file stays for the next process.
std::vector<DisplacedFile::Finding> TidyLeftovers(const std::string& path,
                                                  base::FileSystem& files = base::FileSystem::Real(),
                                                  std::chrono::milliseconds foreign_age = kLeftoverAge);

}  // namespace stepwatch::writeback
