#include "controller/writeback/file_calls.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <vector>

#include "src/config/parse_config.h"

namespace stepwatch::writeback {
namespace {

template <class Call>
int ErrnoOf(Call call) {
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

constexpr size_t kAttributeBytesMax = 64 * 1024;  // the kernel's limit for one value and for the list of names
constexpr int kRemoveTries = 3;
constexpr int kInspectTries = 3;

}  // namespace

int FileCalls::RealPath(const std::string& path, std::string* resolved) const {
  if (const int error = Fault("realpath")) return error;
  char text[PATH_MAX];
  if (::realpath(path.c_str(), text) == nullptr) return errno;
  *resolved = text;
  return 0;
}

int FileCalls::Writable(const std::string& path) const {
  if (const int error = Fault("faccessat")) return error;
  return ErrnoOf([&] { return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS); });
}

int FileCalls::Open(const std::string& path, int flags, base::UniqueFd* fd, mode_t mode) const {
  if (const int error = Fault("open")) return error;
  return ErrnoOf([&] {
    *fd = base::UniqueFd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode));
    return fd->get();
  });
}

int FileCalls::List(const std::string& directory, std::vector<std::string>* names) const {
  if (const int error = Fault("opendir")) return error;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names->push_back(entry->path().filename().string());
  return error.value();
}

int FileCalls::Status(int fd, struct stat* status) const {
  if (const int error = Fault("fstat")) return error;
  return ErrnoOf([&] { return ::fstat(fd, status); });
}

int FileCalls::StatusOfName(const std::string& path, struct stat* status) const {
  if (const int error = Fault("lstat")) return error;
  return ErrnoOf([&] { return ::lstat(path.c_str(), status); });
}

int FileCalls::Read(int fd, std::string* bytes) const {
  if (const int error = Fault("pread")) return error;
  Result<std::string> all = base::ReadAll(fd, config::kConfigBytesMax);
  if (!all.ok()) return all.status().code() == StatusCode::kExhausted ? EFBIG : EIO;
  *bytes = std::move(all).value();
  return 0;
}

int FileCalls::Write(int fd, std::string_view bytes, int64_t offset) const {
  if (const int error = Fault("pwrite")) return error;
  while (!bytes.empty()) {
    ssize_t put = 0;
    const int error = ErrnoOf([&] { return put = ::pwrite(fd, bytes.data(), bytes.size(), offset); });
    if (error != 0) return error;
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += put;
  }
  return 0;
}

int FileCalls::Reserve(int fd, int64_t offset, int64_t length) const {
  if (const int error = Fault("fallocate")) return error;
  return ErrnoOf([&] { return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, length); });
}

int FileCalls::Sync(int fd) const {
  if (const int error = Fault("fsync")) return error;
  const int error = ErrnoOf([&] { return ::fsync(fd); });
  return error == EINVAL ? 0 : error;  // a file system without fsync
}

int FileCalls::ChangeOwner(int fd, uid_t user, gid_t group) const {
  if (const int error = Fault("fchown")) return error;
  return ErrnoOf([&] { return ::fchown(fd, user, group); });
}

int FileCalls::ChangeMode(int fd, mode_t mode) const {
  if (const int error = Fault("fchmod")) return error;
  return ErrnoOf([&] { return ::fchmod(fd, mode); });
}

void FileCalls::CopyAttributes(int from, int to) const {
  if (Fault("flistxattr") != 0) return;
  std::vector<char> names(kAttributeBytesMax), value(kAttributeBytesMax);
  const ssize_t length = ::flistxattr(from, names.data(), names.size());
  for (ssize_t at = 0; at < length;) {
    const std::string_view name(names.data() + at);  // each ends with a zero
    const ssize_t size = ::fgetxattr(from, name.data(), value.data(), value.size());
    if (size >= 0) ::fsetxattr(to, name.data(), value.data(), static_cast<size_t>(size), 0);
    at += static_cast<ssize_t>(name.size()) + 1;
  }
}

int FileCalls::Exchange(const std::string& a, const std::string& b) const {
  if (const int error = Fault("renameat2")) return error;
  return ErrnoOf([&] { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); });
}

int FileCalls::RenameToFreeName(const std::string& from, const std::string& to) const {
  if (const int error = Fault("renameat2")) return error;
  return ErrnoOf([&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE); });
}

int FileCalls::Rename(const std::string& from, const std::string& to) const {
  if (const int error = Fault("rename")) return error;
  return ErrnoOf([&] { return ::rename(from.c_str(), to.c_str()); });
}

int FileCalls::Link(const std::string& from, const std::string& to) const {
  if (const int error = Fault("link")) return error;
  return ErrnoOf([&] { return ::link(from.c_str(), to.c_str()); });
}

int FileCalls::Unlink(const std::string& path) const {
  if (const int error = Fault("unlink")) return error;
  return ErrnoOf([&] { return ::unlink(path.c_str()); });
}

int FileCalls::Lease(int fd, int type) const {
  if (type == F_UNLCK) return ErrnoOf([&] { return ::fcntl(fd, F_SETLEASE, F_UNLCK); });
  if (const int error = Fault("fcntl")) return error;
  f_owner_ex owner = {F_OWNER_TID, static_cast<pid_t>(::syscall(SYS_gettid))};
  if (::fcntl(fd, F_SETSIG, SIGURG) != 0 || ::fcntl(fd, F_SETOWN_EX, &owner) != 0) return EINVAL;
  return ErrnoOf([&] { return ::fcntl(fd, F_SETLEASE, type); });
}

bool FileCalls::LeaseHolds(int fd, int type) const {
  return ::fcntl(fd, F_GETLEASE) == type;
}

Version Inspect(const FileCalls& calls, const std::string& path) {
  Version version;
  for (int i = 0; i < kInspectTries && !version.bytes; ++i) {
    struct stat status = {};
    if (calls.StatusOfName(path, &status) != 0) continue;
    version.device = static_cast<uint64_t>(status.st_dev);
    version.inode = static_cast<uint64_t>(status.st_ino);
    if (!S_ISREG(status.st_mode)) return version;
    base::UniqueFd fd;
    std::string bytes;
    if (calls.Open(path, O_RDONLY, &fd) == 0 && calls.Read(fd.get(), &bytes) == 0) version.bytes = std::move(bytes);
  }
  return version;
}

int RemoveOurs(const FileCalls& calls, const std::string& path) {
  int error = 0;
  for (int i = 0; i < kRemoveTries; ++i) {
    error = calls.Unlink(path);
    if (error == 0 || error == ENOENT) return 0;
  }
  return error;
}

}  // namespace stepwatch::writeback
