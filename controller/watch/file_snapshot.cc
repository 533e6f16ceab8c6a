#include "controller/watch/file_snapshot.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::watch {
namespace {

constexpr size_t kPathShownMax = 200;

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileSnapshot Unreadable(const std::string& path, int error_number, const std::string& what) {
  FileSnapshot snapshot;
  snapshot.kind = SnapshotKind::kUnreadable;
  snapshot.error_number = error_number;
  snapshot.error = base::Printable(path, kPathShownMax) + " " + what;
  return snapshot;
}

FileSnapshot Failed(const std::string& path, const char* what, int error_number) {
  if (error_number == ENOENT || error_number == ENOTDIR) {
    FileSnapshot snapshot;
    snapshot.error = base::Printable(path, kPathShownMax) + " is missing";
    return snapshot;
  }
  return Unreadable(path, error_number,
                    std::string("cannot be ") + what + ": " + std::generic_category().message(error_number));
}

const char* FileTypeName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    default: return "of an unknown type";
  }
}

bool IsConfigShaped(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_size <= static_cast<off_t>(config::kConfigBytesMax);
}

FileSnapshot NotConfigShaped(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    return Unreadable(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL,
                      std::string("is ") + FileTypeName(status.st_mode) + "; a config must be a regular file");
  }
  return Unreadable(path, EFBIG,
                    "is " + std::to_string(status.st_size) + " bytes long; a config has at most " +
                        std::to_string(config::kConfigBytesMax));
}

}  // namespace

FileStamp StampOf(const struct stat& status) {
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), status.st_size,
          Nanoseconds(status.st_mtim),          Nanoseconds(status.st_ctim),          status.st_uid};
}

FileSnapshot NeverStable(const std::string& path, std::chrono::seconds time) {
  return Unreadable(path, EBUSY,
                    "could not be read as one version for " + std::to_string(time.count()) +
                        " s: another process keeps writing to it or holding it, or its file system does not report its "
                        "size; a config must be unchanged for a moment between two saves");
}

FileSnapshot TakeSnapshot(const std::string& path, base::FileSystem& files) {
  FileSnapshot snapshot;
  snapshot.kind = SnapshotKind::kUnstable;
  struct stat before = {};
  // Checked before opening: opening a device or a FIFO can have effects on its other end.
  if (files.Stat(path.c_str(), &before) != 0) return Failed(path, "read", errno);
  if (!IsConfigShaped(before)) return NotConfigShaped(path, before);

  base::UniqueFd file(files.Open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0));
  if (!file.valid()) {
    // EWOULDBLOCK: another process holds a lease on the file for a moment.
    if (errno == EINTR || errno == EWOULDBLOCK) return snapshot;
    return Failed(path, "opened", errno);
  }
  if (files.Fstat(file.get(), &before) != 0) return Failed(path, "read", errno);
  if (!IsConfigShaped(before)) return NotConfigShaped(path, before);

  Result<std::string> bytes = base::ReadAll(file.get(), config::kConfigBytesMax, files);
  if (!bytes.ok()) {
    if (bytes.status().code() == StatusCode::kExhausted) return snapshot;  // grew past the limit during the read
    return Unreadable(path, EIO, "cannot be read: " + bytes.status().message());
  }
  struct stat after = {};
  if (files.Fstat(file.get(), &after) != 0) return Failed(path, "read", errno);
  const FileStamp stamp = StampOf(after);
  if (stamp != StampOf(before) || static_cast<int64_t>(bytes.value().size()) != stamp.size) return snapshot;

  snapshot.kind = SnapshotKind::kBytes;
  snapshot.sha256 = base::Sha256Hex(bytes.value());
  snapshot.bytes = std::move(bytes).value();
  snapshot.stamp = stamp;
  return snapshot;
}

}  // namespace stepwatch::watch
