#include "src/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>

namespace stepwatch::base {
namespace {

// Calls the kernel directly: glibc before 2.28 and musl have no wrapper.
int RenameAt2(const char* from, const char* to, unsigned flags) {
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
}

// Owns the stream. Null: it could not be opened.
int ListAll(DIR* stream, std::vector<std::string>* names) {
  const auto close = [](DIR* directory) { ::closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> directory(stream, close);
  if (directory == nullptr) return -1;
  for (;;) {
    errno = 0;  // readdir reports the end and a failure alike, except for errno
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) return errno == 0 ? 0 : -1;
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names->emplace_back(entry->d_name);
  }
}

class RealFileSystem final : public FileSystem {
 public:
  int Open(const char* path, int flags, mode_t mode) override { return ::open(path, flags, mode); }
  int Close(int fd) override { return ::close(fd); }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override { return ::pread(fd, bytes, count, offset); }
  ssize_t Write(int fd, const void* bytes, size_t count) override { return ::write(fd, bytes, count); }
  ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset) override {
    return ::pwrite(fd, bytes, count, offset);
  }
  int Truncate(int fd, off_t size) override { return ::ftruncate(fd, size); }
  int Reserve(int fd, off_t offset, off_t length) override {
    return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, length);
  }
  int Sync(int fd) override { return ::fsync(fd); }

  int Stat(const char* path, struct stat* about) override { return ::stat(path, about); }
  int Lstat(const char* path, struct stat* about) override { return ::lstat(path, about); }
  int Fstat(int fd, struct stat* about) override { return ::fstat(fd, about); }
  int Access(const char* path, int mode) override { return ::faccessat(AT_FDCWD, path, mode, AT_EACCESS); }
  int ChangeOwner(int fd, uid_t user, gid_t group) override { return ::fchown(fd, user, group); }
  int ChangeMode(int fd, mode_t mode) override { return ::fchmod(fd, mode); }
  int ChangeOwnerAt(const char* path, uid_t user, gid_t group) override { return ::lchown(path, user, group); }
  int ChangeModeAt(const char* path, mode_t mode) override { return ::chmod(path, mode); }
  ssize_t ListAttributes(int fd, char* names, size_t size) override { return ::flistxattr(fd, names, size); }
  ssize_t GetAttribute(int fd, const char* name, void* value, size_t size) override {
    return ::fgetxattr(fd, name, value, size);
  }
  int SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) override {
    return ::fsetxattr(fd, name, value, size, flags);
  }

  int SetLease(int fd, int type) override {
    if (type == F_UNLCK) return ::fcntl(fd, F_SETLEASE, F_UNLCK);
    f_owner_ex owner = {F_OWNER_TID, static_cast<pid_t>(::syscall(SYS_gettid))};
    if (::fcntl(fd, F_SETSIG, SIGURG) != 0 || ::fcntl(fd, F_SETOWN_EX, &owner) != 0) return errno = EINVAL, -1;
    return ::fcntl(fd, F_SETLEASE, type);
  }
  int GetLease(int fd) override { return ::fcntl(fd, F_GETLEASE); }
  int Lock(int fd, int operation) override { return ::flock(fd, operation); }

  int Rename(const char* from, const char* to) override { return ::rename(from, to); }
  int RenameNew(const char* from, const char* to) override { return RenameAt2(from, to, RENAME_NOREPLACE); }
  int Exchange(const char* a, const char* b) override { return RenameAt2(a, b, RENAME_EXCHANGE); }
  int Link(const char* from, const char* to) override { return ::link(from, to); }
  int Unlink(const char* path) override { return ::unlink(path); }
  ssize_t ReadLink(const char* path, char* text, size_t size) override { return ::readlink(path, text, size); }
  int RealPath(const char* path, std::string* resolved) override {
    char text[PATH_MAX];
    if (::realpath(path, text) == nullptr) return -1;
    *resolved = text;
    return 0;
  }
  int CurrentDirectory(std::string* path) override {
    char text[PATH_MAX];
    if (::getcwd(text, sizeof text) == nullptr) return -1;
    *path = text;
    return 0;
  }

  int MakeDirectory(const char* path, mode_t mode) override { return ::mkdir(path, mode); }
  int MakeUniqueDirectory(char* pattern) override { return ::mkdtemp(pattern) == nullptr ? -1 : 0; }
  int RemoveDirectory(const char* path) override { return ::rmdir(path); }
  int List(const char* path, std::vector<std::string>* names) override { return ListAll(::opendir(path), names); }

  int OpenBeneath(int directory, const char* path, int flags, mode_t mode) override {
    open_how how = {};
    how.flags = static_cast<unsigned>(flags);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;  // openat2 rejects a mode without O_CREAT
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof how));
  }
  int OpenAt(int directory, const char* name, int flags, mode_t mode) override {
    return ::openat(directory, name, flags | O_NOFOLLOW, mode);
  }
  int StatAt(int directory, const char* name, struct stat* about) override {
    return ::fstatat(directory, name, about, AT_SYMLINK_NOFOLLOW);
  }
  int RenameAt(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) override {
    if (flags == 0) return ::renameat(from_directory, from, to_directory, to);
    return static_cast<int>(::syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
  }
  int LinkAt(int from_directory, const char* from, int to_directory, const char* to) override {
    return ::linkat(from_directory, from, to_directory, to, 0);
  }
  int UnlinkAt(int directory, const char* name, int flags) override { return ::unlinkat(directory, name, flags); }
  int MakeDirectoryAt(int directory, const char* name, mode_t mode) override {
    return ::mkdirat(directory, name, mode);
  }
  int ListAt(int directory, std::vector<std::string>* names) override {
    // A separate descriptor: reading moves the position, and closing the stream closes it.
    const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return -1;
    DIR* const stream = ::fdopendir(own);
    if (stream == nullptr) ::close(own);
    return ListAll(stream, names);
  }

  int AddWatch(int queue, const char* path, uint32_t mask) override { return ::inotify_add_watch(queue, path, mask); }
};

}  // namespace

FileSystem& FileSystem::Real() {
  // Never destroyed: threads of the monitor may outlive main.
  static FileSystem& real = *new RealFileSystem;
  return real;
}

int FileSystemWrapper::Open(const char* path, int flags, mode_t mode) {
  return target_.Open(path, flags, mode);
}
int FileSystemWrapper::Close(int fd) {
  return target_.Close(fd);
}
ssize_t FileSystemWrapper::Read(int fd, void* bytes, size_t count, off_t offset) {
  return target_.Read(fd, bytes, count, offset);
}
ssize_t FileSystemWrapper::Write(int fd, const void* bytes, size_t count) {
  return target_.Write(fd, bytes, count);
}
ssize_t FileSystemWrapper::WriteAt(int fd, const void* bytes, size_t count, off_t offset) {
  return target_.WriteAt(fd, bytes, count, offset);
}
int FileSystemWrapper::Truncate(int fd, off_t size) {
  return target_.Truncate(fd, size);
}
int FileSystemWrapper::Reserve(int fd, off_t offset, off_t length) {
  return target_.Reserve(fd, offset, length);
}
int FileSystemWrapper::Sync(int fd) {
  return target_.Sync(fd);
}
int FileSystemWrapper::Stat(const char* path, struct stat* about) {
  return target_.Stat(path, about);
}
int FileSystemWrapper::Lstat(const char* path, struct stat* about) {
  return target_.Lstat(path, about);
}
int FileSystemWrapper::Fstat(int fd, struct stat* about) {
  return target_.Fstat(fd, about);
}
int FileSystemWrapper::Access(const char* path, int mode) {
  return target_.Access(path, mode);
}
int FileSystemWrapper::ChangeOwner(int fd, uid_t user, gid_t group) {
  return target_.ChangeOwner(fd, user, group);
}
int FileSystemWrapper::ChangeMode(int fd, mode_t mode) {
  return target_.ChangeMode(fd, mode);
}
int FileSystemWrapper::ChangeOwnerAt(const char* path, uid_t user, gid_t group) {
  return target_.ChangeOwnerAt(path, user, group);
}
int FileSystemWrapper::ChangeModeAt(const char* path, mode_t mode) {
  return target_.ChangeModeAt(path, mode);
}
ssize_t FileSystemWrapper::ListAttributes(int fd, char* names, size_t size) {
  return target_.ListAttributes(fd, names, size);
}
ssize_t FileSystemWrapper::GetAttribute(int fd, const char* name, void* value, size_t size) {
  return target_.GetAttribute(fd, name, value, size);
}
int FileSystemWrapper::SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) {
  return target_.SetAttribute(fd, name, value, size, flags);
}
int FileSystemWrapper::SetLease(int fd, int type) {
  return target_.SetLease(fd, type);
}
int FileSystemWrapper::GetLease(int fd) {
  return target_.GetLease(fd);
}
int FileSystemWrapper::Lock(int fd, int operation) {
  return target_.Lock(fd, operation);
}
int FileSystemWrapper::Rename(const char* from, const char* to) {
  return target_.Rename(from, to);
}
int FileSystemWrapper::RenameNew(const char* from, const char* to) {
  return target_.RenameNew(from, to);
}
int FileSystemWrapper::Exchange(const char* a, const char* b) {
  return target_.Exchange(a, b);
}
int FileSystemWrapper::Link(const char* from, const char* to) {
  return target_.Link(from, to);
}
int FileSystemWrapper::Unlink(const char* path) {
  return target_.Unlink(path);
}
ssize_t FileSystemWrapper::ReadLink(const char* path, char* text, size_t size) {
  return target_.ReadLink(path, text, size);
}
int FileSystemWrapper::RealPath(const char* path, std::string* resolved) {
  return target_.RealPath(path, resolved);
}
int FileSystemWrapper::CurrentDirectory(std::string* path) {
  return target_.CurrentDirectory(path);
}
int FileSystemWrapper::MakeDirectory(const char* path, mode_t mode) {
  return target_.MakeDirectory(path, mode);
}
int FileSystemWrapper::MakeUniqueDirectory(char* pattern) {
  return target_.MakeUniqueDirectory(pattern);
}
int FileSystemWrapper::RemoveDirectory(const char* path) {
  return target_.RemoveDirectory(path);
}
int FileSystemWrapper::List(const char* path, std::vector<std::string>* names) {
  return target_.List(path, names);
}
int FileSystemWrapper::OpenBeneath(int directory, const char* path, int flags, mode_t mode) {
  return target_.OpenBeneath(directory, path, flags, mode);
}
int FileSystemWrapper::OpenAt(int directory, const char* name, int flags, mode_t mode) {
  return target_.OpenAt(directory, name, flags, mode);
}
int FileSystemWrapper::StatAt(int directory, const char* name, struct stat* about) {
  return target_.StatAt(directory, name, about);
}
int FileSystemWrapper::RenameAt(int from_directory, const char* from, int to_directory, const char* to,
                                unsigned flags) {
  return target_.RenameAt(from_directory, from, to_directory, to, flags);
}
int FileSystemWrapper::LinkAt(int from_directory, const char* from, int to_directory, const char* to) {
  return target_.LinkAt(from_directory, from, to_directory, to);
}
int FileSystemWrapper::UnlinkAt(int directory, const char* name, int flags) {
  return target_.UnlinkAt(directory, name, flags);
}
int FileSystemWrapper::MakeDirectoryAt(int directory, const char* name, mode_t mode) {
  return target_.MakeDirectoryAt(directory, name, mode);
}
int FileSystemWrapper::ListAt(int directory, std::vector<std::string>* names) {
  return target_.ListAt(directory, names);
}
int FileSystemWrapper::AddWatch(int queue, const char* path, uint32_t mask) {
  return target_.AddWatch(queue, path, mask);
}

}  // namespace stepwatch::base
