// A file system confined to a root directory: no path leads out of it, neither by its text nor through symbolic links
// placed there by others.
//
// The root is opened once; every path is looked up from that descriptor, by openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS or, without openat2 (an old kernel, a container's filter), part by part with O_NOFOLLOW. A path
// that leaves the root fails with EXDEV, one with a symbolic link below the root with ELOOP. Links on the way to the
// root itself, and mounts below it, are trusted as the administrator's choice.
//
// It derives from FileSystem, not FileSystemWrapper, so that the compiler rejects a call that is not confined.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::base {

class ConfinedFiles final : public FileSystem {
 public:
  // Creates a missing root. Relative paths, including `root`, are resolved in the working directory of this moment.
  // `files` must outlive the result.
  static Result<std::unique_ptr<ConfinedFiles>> Open(const std::string& root, FileSystem& files = Real());

  // As given, made absolute.
  const std::string& root() const { return root_paths_.front(); }
  // Ok if files can be put at the path, which need not exist, or below it. Otherwise the error describes how the path
  // leaves the root.
  Status Check(const std::string& path);

  int Open(const char* path, int flags, mode_t mode) override;
  int Stat(const char* path, struct stat* about) override;
  int Lstat(const char* path, struct stat* about) override;
  int Rename(const char* from, const char* to) override;
  int RenameNew(const char* from, const char* to) override;
  int Exchange(const char* a, const char* b) override;
  int Link(const char* from, const char* to) override;
  int Unlink(const char* path) override;
  int MakeDirectory(const char* path, mode_t mode) override;
  int RemoveDirectory(const char* path) override;
  int List(const char* path, std::vector<std::string>* names) override;

  // Not needed by any writer: EOPNOTSUPP.
  int Access(const char* path, int mode) override;
  int ChangeOwnerAt(const char* path, uid_t user, gid_t group) override;
  int ChangeModeAt(const char* path, mode_t mode) override;
  ssize_t ReadLink(const char* path, char* text, size_t size) override;
  int RealPath(const char* path, std::string* resolved) override;
  int MakeUniqueDirectory(char* pattern) override;
  int AddWatch(int queue, const char* path, uint32_t mask) override;

  // The file of a descriptor was confined when it was opened.
  int Close(int fd) override { return files_.Close(fd); }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    return files_.Read(fd, bytes, count, offset);
  }
  ssize_t Write(int fd, const void* bytes, size_t count) override { return files_.Write(fd, bytes, count); }
  ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset) override {
    return files_.WriteAt(fd, bytes, count, offset);
  }
  int Truncate(int fd, off_t size) override { return files_.Truncate(fd, size); }
  int Reserve(int fd, off_t offset, off_t length) override { return files_.Reserve(fd, offset, length); }
  int Sync(int fd) override { return files_.Sync(fd); }
  int Fstat(int fd, struct stat* about) override { return files_.Fstat(fd, about); }
  int ChangeOwner(int fd, uid_t user, gid_t group) override { return files_.ChangeOwner(fd, user, group); }
  int ChangeMode(int fd, mode_t mode) override { return files_.ChangeMode(fd, mode); }
  ssize_t ListAttributes(int fd, char* names, size_t size) override { return files_.ListAttributes(fd, names, size); }
  ssize_t GetAttribute(int fd, const char* name, void* value, size_t size) override {
    return files_.GetAttribute(fd, name, value, size);
  }
  int SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) override {
    return files_.SetAttribute(fd, name, value, size, flags);
  }
  int SetLease(int fd, int type) override { return files_.SetLease(fd, type); }
  int GetLease(int fd) override { return files_.GetLease(fd); }
  int Lock(int fd, int operation) override { return files_.Lock(fd, operation); }
  int CurrentDirectory(std::string* path) override { return files_.CurrentDirectory(path); }
  int OpenBeneath(int directory, const char* path, int flags, mode_t mode) override {
    return files_.OpenBeneath(directory, path, flags, mode);
  }
  int OpenAt(int directory, const char* name, int flags, mode_t mode) override {
    return files_.OpenAt(directory, name, flags, mode);
  }
  int StatAt(int directory, const char* name, struct stat* about) override {
    return files_.StatAt(directory, name, about);
  }
  int RenameAt(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) override {
    return files_.RenameAt(from_directory, from, to_directory, to, flags);
  }
  int LinkAt(int from_directory, const char* from, int to_directory, const char* to) override {
    return files_.LinkAt(from_directory, from, to_directory, to);
  }
  int UnlinkAt(int directory, const char* name, int flags) override { return files_.UnlinkAt(directory, name, flags); }
  int MakeDirectoryAt(int directory, const char* name, mode_t mode) override {
    return files_.MakeDirectoryAt(directory, name, mode);
  }
  int ListAt(int directory, std::vector<std::string>* names) override { return files_.ListAt(directory, names); }

 private:
  // The open directory that holds a path, and its name there.
  struct Place {
    UniqueFd directory;
    std::string name;
  };

  ConfinedFiles(FileSystem& files, std::string working_directory)
      : files_(files), working_directory_(working_directory) {}

  std::string Absolute(const std::string& path) const;
  // Returns -1 and EXDEV if the path leads out of the root.
  int Relative(const char* path, std::string* relative) const;
  int OpenRelative(const std::string& relative, int flags, mode_t mode);
  int WalkTo(const std::string& relative, int flags, mode_t mode);
  int Find(const char* path, Place* place);
  int RenameFlagged(const char* from, const char* to, unsigned flags);

  FileSystem& files_;
  const std::string working_directory_;
  std::vector<std::string> root_paths_;  // as given and, if that differs, without links
  UniqueFd root_;
};

}  // namespace stepwatch::base
