// File calls of the write-back: each returns 0 or an errno, and is repeated if a signal interrupts it.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/file.h"

namespace stepwatch::writeback {

template <class Call>
int ErrnoOf(Call call) {
  return base::RepeatInterrupted(call) < 0 ? errno : 0;
}

int StatusOf(base::FileSystem& files, int fd, struct stat* status);
// Returns the status of a link itself, not of its target.
int StatusOfName(base::FileSystem& files, const std::string& path, struct stat* status);
// Does not follow links and does not block on a FIFO.
int OpenFile(base::FileSystem& files, const std::string& path, int flags, base::UniqueFd* fd, mode_t mode = 0);
// Reads the whole file; EFBIG beyond the size limit of a config, EIO for other read errors.
int ReadWhole(base::FileSystem& files, int fd, std::string* bytes);
// Writes all of `bytes` from `offset` on; after an error any part of them may be in the file.
int WriteWhole(base::FileSystem& files, int fd, std::string_view bytes, int64_t offset);
int Sync(base::FileSystem& files, int fd);
// Copies as many extended attributes as the file system accepts, access lists and labels included.
void CopyAttributes(base::FileSystem& files, int from, int to);
int Rename(base::FileSystem& files, const std::string& from, const std::string& to);
int RenameToFreeName(base::FileSystem& files, const std::string& from, const std::string& to);
// The same, as far as possible where renameat2(2) supports no flags.
int MoveToFreeName(base::FileSystem& files, const std::string& from, const std::string& to);
int Exchange(base::FileSystem& files, const std::string& a, const std::string& b);
int SetLease(base::FileSystem& files, int fd, int type);

// The content of one name at one moment. Two versions are equal if file and bytes are.
struct Version {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::optional<std::string> bytes;  // none: not a regular file, or not readable

  bool operator==(const Version&) const = default;
};

// Never fails: the version of an unreadable file has no bytes.
Version Inspect(base::FileSystem& files, const std::string& path);

// Uses ctime, which a rename updates. An `age` of 0: always true.
bool IsOlderThan(const struct stat& status, std::chrono::milliseconds age);

// Removes the name of a file that holds our text; returns 0 also if it does not exist.
int RemoveOurs(base::FileSystem& files, const std::string& path);

}  // namespace stepwatch::writeback
