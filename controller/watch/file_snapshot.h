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

// What the file system says about one version of a file. Two looks with equal bytes and different stamps mean that
// somebody was at the file in between.
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
  std::string error;     // kMissing, kUnreadable: a sentence
  int error_number = 0;  // kUnreadable: the cause as an errno, for instance EISDIR, EFBIG, EACCES
  FileStamp stamp;       // kBytes
};

// Opens without blocking (a FIFO cannot hang it), follows links, reads at most the size limit of a config, and accepts
// only if device, inode, size, mtime and ctime are the same before and after.
FileSnapshot TakeSnapshot(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

// What becomes of looks that were kUnstable one after the other for so long.
FileSnapshot NeverStable(const std::string& path, std::chrono::seconds time);

}  // namespace stepwatch::watch
