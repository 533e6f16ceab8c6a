// A listening Unix socket in a runtime directory: DIRECTORY/{pid}-{number}.sock.
//
// The name appears when the socket listens, so a socket there that refuses connections belongs to nobody any more.
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
  // Takes the first number from 1 that nobody listens at: a process may have several monitors, and a directory that
  // containers share several processes of one pid. A socket there that refuses connections is removed. Users of the
  // group `readers` can connect, too. `files` outlives the listener.
  static Result<UnixListener> Open(const std::string& directory, pid_t pid, base::FileSystem& files,
                                   std::optional<gid_t> readers = std::nullopt);

  // At this very path, at which nobody listens: kUnavailable if somebody does. Otherwise the same.
  static Result<UnixListener> OpenAt(const std::string& path, base::FileSystem& files,
                                     std::optional<gid_t> readers = std::nullopt);

  UnixListener() = default;
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // False: somebody has removed or replaced the socket, so that nobody finds it.
  bool IsInPlace() const;
  // Removes the socket, if it is still this one, and stops listening.
  void Close();

 private:
  // Listens at the temporary name.
  static Result<UnixListener> ListenAt(const std::string& temporary, base::FileSystem& files,
                                       std::optional<gid_t> readers);
  // Takes the place of nobody but of a socket that refuses connections; errno says why not.
  bool MoveTo(const std::string& temporary, const std::string& path);

  base::UnforkedFd fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  base::FileSystem* files_ = nullptr;
};

// The next connection of a listening socket, or an invalid descriptor and errno. Waits for none.
base::UnforkedFd AcceptAt(int listening);

// Of the name of a socket, "1234-1.sock", also of a temporary one: the pid; -1: it is no such name.
pid_t PidOfSocketName(const std::string& name);

// True: there is a socket and it takes no connections, so the process that made it has closed it or is dead. A process
// of another host, with which the directory is shared, looks like that, too.
bool RefusesConnections(const std::string& path);

}  // namespace stepwatch::sockets
