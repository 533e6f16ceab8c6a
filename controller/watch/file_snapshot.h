// One look at the config file: its bytes, if they could be read as one stable version.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::watch {

enum class SnapshotKind : uint8_t {
  kBytes,       // read whole, unchanged between two fstat
  kMissing,     // no such file (or a directory of its path is gone)
  kUnreadable,  // there, but not a regular file, too big, no permission, I/O error
  kUnstable,    // changed while it was read: look again
};

// Metadata of one version of a file. Equal bytes with different stamps at two looks mean that the file was touched in
// between.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint32_t owner_uid = 0;

  bool operator==(const FileStamp&) const = default;
};

FileStamp StampOf(const struct stat& status);

struct FileSnapshot {
  SnapshotKind kind = SnapshotKind::kMissing;
  std::string bytes;     // kBytes
  std::string sha256;    // kBytes
  std::string error;     // kMissing, kUnreadable: one sentence
  int error_number = 0;  // kUnreadable: the errno of the cause, for instance EISDIR, EFBIG, EACCES
  FileStamp stamp;       // kBytes
};

// Opens without blocking (even on a FIFO), follows links, reads at most the size limit of a config, and returns kBytes
// only if device, inode, size, mtime and ctime are the same before and after.
FileSnapshot TakeSnapshot(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

// Replaces a snapshot after looks were kUnstable for all of `time`.
FileSnapshot NeverStable(const std::string& path, std::chrono::seconds time);

}  // namespace stepwatch::watch
