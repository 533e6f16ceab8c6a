// The system calls of the write-back, in one place, so that a test can make each of them fail.
//
// Every method returns 0 or an errno; interrupted calls are repeated.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file.h"

namespace stepwatch::writeback {

class FileCalls {
 public:
  // Asked with the name of each system call before it is made; an answer other than 0 is the errno it fails with. Tests
  // only.
  std::function<int(std::string_view call)> fault;

  int RealPath(const std::string& path, std::string* resolved) const;
  int Writable(const std::string& path) const;
  int Open(const std::string& path, int flags, base::UniqueFd* fd, mode_t mode = 0) const;
  int List(const std::string& directory, std::vector<std::string>* names) const;
  int Status(int fd, struct stat* status) const;
  int StatusOfName(const std::string& path, struct stat* status) const;  // of a link, not of what it leads to
  // All bytes; EFBIG beyond the size limit of a config.
  int Read(int fd, std::string* bytes) const;
  // All of `bytes` from `offset` on, or an error after any part of them.
  int Write(int fd, std::string_view bytes, int64_t offset) const;
  int Reserve(int fd, int64_t offset, int64_t length) const;  // disk space, leaving size and bytes as they are
  int Sync(int fd) const;
  int ChangeOwner(int fd, uid_t user, gid_t group) const;
  int ChangeMode(int fd, mode_t mode) const;
  // Extended attributes, access lists and labels among them: as many as the file system takes.
  void CopyAttributes(int from, int to) const;
  int Exchange(const std::string& a, const std::string& b) const;
  int RenameToFreeName(const std::string& from, const std::string& to) const;
  int Rename(const std::string& from, const std::string& to) const;
  // A second name; EEXIST if it is taken.
  int Link(const std::string& from, const std::string& to) const;
  int Unlink(const std::string& path) const;
  // fcntl(2) F_SETLEASE: type is F_RDLCK, F_WRLCK or F_UNLCK. Whoever wants in meanwhile waits; we are told by SIGURG,
  // which nobody dies of (the default, SIGIO, ends a process).
  int Lease(int fd, int type) const;
  bool LeaseHolds(int fd, int type) const;  // false: somebody waits for it to end

 private:
  int Fault(std::string_view call) const { return fault ? fault(call) : 0; }
};

// What one name holds at one moment. Two versions are the same if file and bytes are.
struct Version {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::optional<std::string> bytes;  // none: not a regular file, or not readable

  bool operator==(const Version&) const = default;
};

// Never fails: what cannot be read is a version without bytes.
Version Inspect(const FileCalls& calls, const std::string& path);

// Removes a name that holds a text of ours; 0 also if it is gone already.
int RemoveOurs(const FileCalls& calls, const std::string& path);

}  // namespace stepwatch::writeback
