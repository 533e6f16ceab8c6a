// Finds the monitors on this machine that this user may query.
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
  std::string name;         // of its socket: "1234-1", the pid and the number of the monitor in that process
  std::string path;         // path of its socket
  pid_t pid = 0;            // as the process itself sees it; in a container it may differ
  std::string status;       // body of /v1/status; empty: no answer
  std::string why;          // the reason for a missing answer
  uid_t uid = ::geteuid();  // owner of the socket's directory, expected to be the user of the server too
};

// A client of that job, which may belong to another user.
inline http::Client ClientOf(const FoundJob& job) {
  return http::Client(job.path, job.uid);
}

// The socket of a monitor, found without connecting to it.
struct FoundSocket {
  std::string name;  // see FoundJob
  std::string path;
  pid_t pid = 0;
  uid_t uid = 0;
  ino_t inode = 0;  // distinguishes sockets that had the same path one after another
};

struct FindOptions {
  std::vector<std::string> directories;  // see RuntimeDirectories
  std::string named = {};                // the directory among them that the user named; it may belong to another user
  std::chrono::milliseconds answer_time{2000};
  base::FileSystem* files = &base::FileSystem::Real();
};

// The sockets of the directories, in no particular order. Skips directories of other users, except `named`. Connects to
// no socket, so some may be abandoned.
std::vector<FoundSocket> FindSockets(const FindOptions& options);

// The reasons why existing directories are skipped.
std::vector<std::string> PassedOver(const FindOptions& options);

// Requests the status of every socket in the directories in parallel; sorted by pid. Skips directories of other users,
// except `named`; if that cannot be listed, tries the socket names of this machine's processes in it. Removes a socket
// that the user owns, that refuses connections, and whose process is dead.
std::vector<FoundJob> FindJobs(const FindOptions& options);

// Queries a socket that the user named; nullopt if no job is there. Fails if its directory cannot be trusted.
Result<std::optional<FoundJob>> FindJobAt(const std::string& path, const FindOptions& options);

// Uses a pidfd: true if the process has ended, or no process on this machine has this pid.
bool IsDead(pid_t pid);

}  // namespace stepwatch::control_socket
