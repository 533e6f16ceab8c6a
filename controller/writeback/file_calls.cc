#include "controller/writeback/file_calls.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "src/config/parse_config.h"

namespace stepwatch::writeback {
namespace {

constexpr size_t kAttributeBytesMax = 64 * 1024;  // the kernel's limit for one value and for the list of names
constexpr int kRemoveTries = 3;
constexpr int kInspectTries = 3;

}  // namespace

int StatusOf(base::FileSystem& files, int fd, struct stat* status) {
  return ErrnoOf([&] { return files.Fstat(fd, status); });
}

int StatusOfName(base::FileSystem& files, const std::string& path, struct stat* status) {
  return ErrnoOf([&] { return files.Lstat(path.c_str(), status); });
}

int OpenFile(base::FileSystem& files, const std::string& path, int flags, base::UniqueFd* fd, mode_t mode) {
  constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  int opened = -1;
  const int error = ErrnoOf([&] { return opened = files.Open(path.c_str(), flags | kAlways, mode); });
  *fd = base::UniqueFd(opened);
  return error;
}

int ReadWhole(base::FileSystem& files, int fd, std::string* bytes) {
  Result<std::string> all = base::ReadAll(fd, config::kConfigBytesMax, files);
  if (!all.ok()) return all.status().code() == StatusCode::kExhausted ? EFBIG : EIO;
  *bytes = std::move(all).value();
  return 0;
}

int WriteWhole(base::FileSystem& files, int fd, std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    ssize_t put = 0;
    const int error = ErrnoOf([&] { return put = files.WriteAt(fd, bytes.data(), bytes.size(), offset); });
    if (error != 0) return error;
    if (put == 0) return EIO;
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += put;
  }
  return 0;
}

int Sync(base::FileSystem& files, int fd) {
  const int error = ErrnoOf([&] { return files.Sync(fd); });
  return error == EINVAL ? 0 : error;  // a file system without fsync
}

void CopyAttributes(base::FileSystem& files, int from, int to) {
  std::string names(kAttributeBytesMax, '\0'), value(kAttributeBytesMax, '\0');
  const ssize_t length = files.ListAttributes(from, names.data(), names.size());
  for (ssize_t at = 0; at < length;) {
    const std::string_view name(names.data() + at);  // each ends with a zero byte
    const ssize_t size = files.GetAttribute(from, name.data(), value.data(), value.size());
    if (size >= 0) files.SetAttribute(to, name.data(), value.data(), static_cast<size_t>(size), 0);
    at += static_cast<ssize_t>(name.size()) + 1;
  }
}

int Rename(base::FileSystem& files, const std::string& from, const std::string& to) {
  return ErrnoOf([&] { return files.Rename(from.c_str(), to.c_str()); });
}

int RenameToFreeName(base::FileSystem& files, const std::string& from, const std::string& to) {
  return ErrnoOf([&] { return files.RenameNew(from.c_str(), to.c_str()); });
}

int MoveToFreeName(base::FileSystem& files, const std::string& from, const std::string& to) {
  const int error = RenameToFreeName(files, from, to);
  if (error == 0 || error == EEXIST || error == ENOENT) return error;
  struct stat status = {};
  const int found = StatusOfName(files, to, &status);
  if (found == ENOENT) return Rename(files, from, to);
  return found == 0 ? EEXIST : found;
}

int Exchange(base::FileSystem& files, const std::string& a, const std::string& b) {
  return ErrnoOf([&] { return files.Exchange(a.c_str(), b.c_str()); });
}

int SetLease(base::FileSystem& files, int fd, int type) {
  return ErrnoOf([&] { return files.SetLease(fd, type); });
}

Version Inspect(base::FileSystem& files, const std::string& path) {
  Version version;
  for (int i = 0; i < kInspectTries && !version.bytes; ++i) {
    struct stat status = {};
    if (StatusOfName(files, path, &status) != 0) continue;
    version.device = static_cast<uint64_t>(status.st_dev);
    version.inode = static_cast<uint64_t>(status.st_ino);
    if (!S_ISREG(status.st_mode)) return version;
    base::UniqueFd fd;
    std::string bytes;
    if (OpenFile(files, path, O_RDONLY, &fd) == 0 && ReadWhole(files, fd.get(), &bytes) == 0)
      version.bytes = std::move(bytes);
  }
  return version;
}

bool IsOlderThan(const struct stat& status, std::chrono::milliseconds age) {
  using std::chrono::system_clock;
  const auto changed = std::chrono::seconds(status.st_ctim.tv_sec) + std::chrono::nanoseconds(status.st_ctim.tv_nsec);
  return age == std::chrono::milliseconds(0) || system_clock::now().time_since_epoch() - changed > age;
}

int RemoveOurs(base::FileSystem& files, const std::string& path) {
  int error = 0;
  for (int i = 0; i < kRemoveTries; ++i) {
    error = ErrnoOf([&] { return files.Unlink(path.c_str()); });
    if (error == 0 || error == ENOENT) return 0;
  }
  return error;
}

}  // namespace stepwatch::writeback
