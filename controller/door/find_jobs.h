// Which monitors run on this machine, as far as this user may know.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::door {

struct FoundJob {
  std::string name;    // of its socket: "1234-1", the process and the number of the monitor in it
  std::string path;    // of its socket
  pid_t pid = 0;       // as the process itself knows it: a container may have another one for it
  std::string status;  // the body of /v1/status; empty: it has not answered
  std::string why;     // it has not answered
};

struct FindOptions {
  std::vector<std::string> directories;  // see RuntimeDirectories
  std::chrono::milliseconds answer_time{2000};
  base::FileSystem* files = &base::FileSystem::Real();
};

// Asks every socket of the directories for its status, all at the same time; sorted by pid. A directory that is not the
// user's own is passed over. A socket that the user owns, that nobody listens at, and whose process is dead, is
// removed.
std::vector<FoundJob> FindJobs(const FindOptions& options);

// By a pidfd: the process has ended, or there is none of that number here.
bool IsDead(pid_t pid);

}  // namespace stepwatch::door
