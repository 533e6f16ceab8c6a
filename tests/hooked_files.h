// A file system that calls a hook of the test before each call: the hook returns the errno of a failure, and its
// actions (save, fork, throw, exit) happen just before the call.
//
// It derives from FileSystem and not from FileSystemWrapper, so a call without a hook does not compile.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::testing {

class HookedFiles : public base::FileSystem {
 public:
  // Called with the name of a system call; returns the errno of its failure, or 0 to make the call.
  using Hook = std::function<int(std::string_view call)>;

  explicit HookedFiles(Hook hook = nullptr) : before(std::move(hook)) {}

  Hook before;

  int Open(const char* path, int flags, mode_t mode) override {
    return Make("open", &FileSystem::Open, path, flags, mode);
  }
  // A failing close still closes the descriptor.
  int Close(int fd) override {
    const int error = before ? before("close") : 0;
    const int closed = Real().Close(fd);
    return error == 0 ? closed : (errno = error, -1);
  }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    return Make("pread", &FileSystem::Read, fd, bytes, count, offset);
  }
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    return Make("write", &FileSystem::Write, fd, bytes, count);
  }
  ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset) override {
    return Make("pwrite", &FileSystem::WriteAt, fd, bytes, count, offset);
  }
  int Truncate(int fd, off_t size) override { return Make("ftruncate", &FileSystem::Truncate, fd, size); }
  int Reserve(int fd, off_t offset, off_t length) override {
    return Make("fallocate", &FileSystem::Reserve, fd, offset, length);
  }
  int Sync(int fd) override { return Make("fsync", &FileSystem::Sync, fd); }
  int Stat(const char* path, struct stat* about) override { return Make("stat", &FileSystem::Stat, path, about); }
  int Lstat(const char* path, struct stat* about) override { return Make("lstat", &FileSystem::Lstat, path, about); }
  int Fstat(int fd, struct stat* about) override { return Make("fstat", &FileSystem::Fstat, fd, about); }
  int Access(const char* path, int mode) override { return Make("faccessat", &FileSystem::Access, path, mode); }
  int ChangeOwner(int fd, uid_t user, gid_t group) override {
    return Make("fchown", &FileSystem::ChangeOwner, fd, user, group);
  }
  int ChangeMode(int fd, mode_t mode) override { return Make("fchmod", &FileSystem::ChangeMode, fd, mode); }
  int ChangeOwnerAt(const char* path, uid_t user, gid_t group) override {
    return Make("lchown", &FileSystem::ChangeOwnerAt, path, user, group);
  }
  int ChangeModeAt(const char* path, mode_t mode) override {
    return Make("chmod", &FileSystem::ChangeModeAt, path, mode);
  }
  ssize_t ListAttributes(int fd, char* names, size_t size) override {
    return Make("flistxattr", &FileSystem::ListAttributes, fd, names, size);
  }
  ssize_t GetAttribute(int fd, const char* name, void* value, size_t size) override {
    return Make("fgetxattr", &FileSystem::GetAttribute, fd, name, value, size);
  }
  int SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) override {
    return Make("fsetxattr", &FileSystem::SetAttribute, fd, name, value, size, flags);
  }
  int SetLease(int fd, int type) override {
    return Make(type == F_UNLCK ? "F_UNLCK" : "F_SETLEASE", &FileSystem::SetLease, fd, type);
  }
  int GetLease(int fd) override { return Make("F_GETLEASE", &FileSystem::GetLease, fd); }
  int Lock(int fd, int operation) override {
    return Make(operation == LOCK_UN ? "LOCK_UN" : "flock", &FileSystem::Lock, fd, operation);
  }
  int Rename(const char* from, const char* to) override { return Make("rename", &FileSystem::Rename, from, to); }
  int RenameNew(const char* from, const char* to) override {
    return Make("renameat2", &FileSystem::RenameNew, from, to);
  }
  int Exchange(const char* a, const char* b) override { return Make("renameat2", &FileSystem::Exchange, a, b); }
  int Link(const char* from, const char* to) override { return Make("link", &FileSystem::Link, from, to); }
  int Unlink(const char* path) override { return Make("unlink", &FileSystem::Unlink, path); }
  ssize_t ReadLink(const char* path, char* text, size_t size) override {
    return Make("readlink", &FileSystem::ReadLink, path, text, size);
  }
  int RealPath(const char* path, std::string* resolved) override {
    return Make("realpath", &FileSystem::RealPath, path, resolved);
  }
  int CurrentDirectory(std::string* path) override { return Make("getcwd", &FileSystem::CurrentDirectory, path); }
  int MakeDirectory(const char* path, mode_t mode) override {
    return Make("mkdir", &FileSystem::MakeDirectory, path, mode);
  }
  int MakeUniqueDirectory(char* pattern) override { return Make("mkdtemp", &FileSystem::MakeUniqueDirectory, pattern); }
  int RemoveDirectory(const char* path) override { return Make("rmdir", &FileSystem::RemoveDirectory, path); }
  int List(const char* path, std::vector<std::string>* names) override {
    return Make("opendir", &FileSystem::List, path, names);
  }
  int OpenBeneath(int directory, const char* path, int flags, mode_t mode) override {
    return Make("openat2", &FileSystem::OpenBeneath, directory, path, flags, mode);
  }
  int OpenAt(int directory, const char* name, int flags, mode_t mode) override {
    return Make("openat", &FileSystem::OpenAt, directory, name, flags, mode);
  }
  int StatAt(int directory, const char* name, struct stat* about) override {
    return Make("fstatat", &FileSystem::StatAt, directory, name, about);
  }
  int RenameAt(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) override {
    return Make("renameat2", &FileSystem::RenameAt, from_directory, from, to_directory, to, flags);
  }
  int LinkAt(int from_directory, const char* from, int to_directory, const char* to) override {
    return Make("linkat", &FileSystem::LinkAt, from_directory, from, to_directory, to);
  }
  int UnlinkAt(int directory, const char* name, int flags) override {
    return Make("unlinkat", &FileSystem::UnlinkAt, directory, name, flags);
  }
  int MakeDirectoryAt(int directory, const char* name, mode_t mode) override {
    return Make("mkdirat", &FileSystem::MakeDirectoryAt, directory, name, mode);
  }
  int ListAt(int directory, std::vector<std::string>* names) override {
    return Make("fdopendir", &FileSystem::ListAt, directory, names);
  }
  int AddWatch(int queue, const char* path, uint32_t mask) override {
    return Make("inotify_add_watch", &FileSystem::AddWatch, queue, path, mask);
  }

 private:
  template <class Answer, class... Takes>
  Answer Make(std::string_view name, Answer (FileSystem::*call)(Takes...), Takes... given) {
    if (const int error = before ? before(name) : 0) return errno = error, -1;
    return (Real().*call)(given...);
  }
};

}  // namespace stepwatch::testing
