// The calls on files that the write-back is made of: each answers 0 or an errno, and is made again if a signal
// interrupts it.
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
// Looks at a link itself, not at what it leads to.
int StatusOfName(base::FileSystem& files, const std::string& path, struct stat* status);
// Follows no link and waits for no FIFO.
int OpenFile(base::FileSystem& files, const std::string& path, int flags, base::UniqueFd* fd, mode_t mode = 0);
// Reads the whole file; EFBIG beyond the size limit of a config, EIO for whatever else fails.
int ReadWhole(base::FileSystem& files, int fd, std::string* bytes);
// Writes all of `bytes` from `offset` on; after an error any part of them may be in the file.
int WriteWhole(base::FileSystem& files, int fd, std::string_view bytes, int64_t offset);
int Sync(base::FileSystem& files, int fd);
// Copies extended attributes, access lists and labels among them: as many as the file system takes.
void CopyAttributes(base::FileSystem& files, int from, int to);
int Rename(base::FileSystem& files, const std::string& from, const std::string& to);
int RenameToFreeName(base::FileSystem& files, const std::string& from, const std::string& to);
// The same, as well as it can be done, where renameat2(2) knows no flags.
int MoveToFreeName(base::FileSystem& files, const std::string& from, const std::string& to);
int Exchange(base::FileSystem& files, const std::string& a, const std::string& b);
int SetLease(base::FileSystem& files, int fd, int type);

// What one name holds at one moment. Two versions are the same if file and bytes are.
struct Version {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::optional<std::string> bytes;  // none: not a regular file, or not readable

  bool operator==(const Version&) const = default;
};

// Never fails: what cannot be read is a version without bytes.
Version Inspect(base::FileSystem& files, const std::string& path);

// By the time of its last change (ctime), a rename included. An `age` of 0: always.
bool IsOlderThan(const struct stat& status, std::chrono::milliseconds age);

// Removes a name that holds a text of ours; 0 also if it is gone already.
int RemoveOurs(base::FileSystem& files, const std::string& path);

}  // namespace stepwatch::writeback
