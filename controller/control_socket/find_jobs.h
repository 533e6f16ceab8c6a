// Which monitors run on this machine, as far as this user may know.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "src/http/client.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

struct FoundJob {
  std::string name;         // of its socket: "1234-1", the process and the number of the monitor in it
  std::string path;         // of its socket
  pid_t pid = 0;            // as the process itself knows it: a container may have another one for it
  std::string status;       // the body of /v1/status; empty: it has not answered
  std::string why;          // it has not answered
  uid_t uid = ::geteuid();  // whose directory it lies in, and so who is expected to serve it
};

// Asks that job, also another user's.
inline http::Client ClientOf(const FoundJob& job) {
  return http::Client(job.path, job.uid);
}

// The socket of a monitor, which was not asked.
struct FoundSocket {
  std::string name;  // see FoundJob
  std::string path;
  pid_t pid = 0;
  uid_t uid = 0;
  ino_t inode = 0;  // another one at the same path is another socket
};

struct FindOptions {
  std::vector<std::string> directories;  // see RuntimeDirectories
  std::string named = {};                // one of them, which may be another user's: this user has named it
  std::chrono::milliseconds answer_time{2000};
  base::FileSystem* files = &base::FileSystem::Real();
};

// The sockets of the directories, in no order. A directory that is not the user's own is passed over, unless it is the
// one that was named. Connects to none of them: some may belong to nobody any more.
std::vector<FoundSocket> FindSockets(const FindOptions& options);

// Why directories that are there are passed over.
std::vector<std::string> PassedOver(const FindOptions& options);

// Asks every socket of the directories for its status, all at the same time; sorted by pid. A directory that is not the
// user's own is passed over, unless it is the one that was named. Where that one cannot be listed, the sockets of the
// processes of this machine are looked for in it. A socket that the user owns, that nobody listens at, and whose
// process is dead, is removed.
std::vector<FoundJob> FindJobs(const FindOptions& options);

// Asks a socket that the user has named; nothing if there is no job. Refused if its directory is not to be trusted.
Result<std::optional<FoundJob>> FindJobAt(const std::string& path, const FindOptions& options);

// By a pidfd: the process has ended, or there is none of that number here.
bool IsDead(pid_t pid);

}  // namespace stepwatch::control_socket
