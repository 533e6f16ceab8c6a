// A listening Unix socket in a runtime directory: DIRECTORY/{pid}-{number}.sock.
//
// The name appears when the socket listens, so a socket there that refuses connections is abandoned.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/file_system.h"
#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

class UnixListener {
 public:
  // Uses the first number from 1 without a listener: a process may have several monitors, and in a directory shared by
  // containers several processes may have one pid. Removes a socket that refuses connections. Users of the group
  // `readers` can connect, too. `files` must outlive the listener.
  static Result<UnixListener> Open(const std::string& directory, pid_t pid, base::FileSystem& files,
                                   std::optional<gid_t> readers = std::nullopt);

  // The same at exactly this path; kUnavailable if another process already listens there.
  static Result<UnixListener> OpenAt(const std::string& path, base::FileSystem& files,
                                     std::optional<gid_t> readers = std::nullopt);

  UnixListener() = default;
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // False if the socket was removed or replaced, so that clients cannot find it.
  bool IsInPlace() const;
  // Removes the socket, if the file is still this one, and stops listening.
  void Close();

 private:
  // Listens at the temporary name.
  static Result<UnixListener> ListenAt(const std::string& temporary, base::FileSystem& files,
                                       std::optional<gid_t> readers);
  // Replaces only a socket that refuses connections; errno holds the error.
  bool MoveTo(const std::string& temporary, const std::string& path);

  base::UnforkedFd fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  base::FileSystem* files_ = nullptr;
};

// Accepts the next connection; returns an invalid descriptor and errno on failure. Does not block.
base::UnforkedFd AcceptAt(int listening);

// Parses the pid from the name of a socket, "1234-1.sock", or of a temporary one; -1 if the name has another form.
pid_t PidOfSocketName(const std::string& name);

// True if the socket exists and refuses connections: the process that made it has closed it or is dead. A process of
// another host that shares the directory looks the same.
bool RefusesConnections(const std::string& path);

}  // namespace stepwatch::sockets
