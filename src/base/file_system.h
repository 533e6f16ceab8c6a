// The file system: one virtual function for each system call that the project makes on files.
//
// Code that opens, reads, writes, renames, links, removes or lists files has a FileSystem parameter, with
// FileSystem::Real() as the default. A test derives from FileSystemWrapper and overrides the one call that must fail,
// block or be counted.
//
// Each function is the POSIX call named beside it: it returns -1 and errno on failure, and the caller handles EINTR
// (see RepeatInterrupted). Functions that return a Status, and the usual loops, are in base/file.h.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepwatch::base {

// Thread-safe: any thread may call any function at any time. A FileSystem outlives all references to it.
class FileSystem {
 public:
  FileSystem() = default;
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // The operating system's file system. Stateless.
  static FileSystem& Real();

  // Descriptors.
  virtual int Open(const char* path, int flags, mode_t mode) = 0;
  virtual int Close(int fd) = 0;
  virtual ssize_t Read(int fd, void* bytes, size_t count, off_t offset) = 0;           // pread
  virtual ssize_t Write(int fd, const void* bytes, size_t count) = 0;                  // write
  virtual ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset) = 0;  // pwrite
  virtual int Truncate(int fd, off_t size) = 0;                                        // ftruncate
  // fallocate with FALLOC_FL_KEEP_SIZE: reserves disk space and leaves size and bytes as they are.
  virtual int Reserve(int fd, off_t offset, off_t length) = 0;
  virtual int Sync(int fd) = 0;  // fsync

  // Attributes.
  virtual int Stat(const char* path, struct stat* about) = 0;
  virtual int Lstat(const char* path, struct stat* about) = 0;
  virtual int Fstat(int fd, struct stat* about) = 0;
  virtual int Access(const char* path, int mode) = 0;            // as euid and egid
  virtual int ChangeOwner(int fd, uid_t user, gid_t group) = 0;  // fchown
  virtual int ChangeMode(int fd, mode_t mode) = 0;               // fchmod
  // For sockets, which have no descriptor of their file.
  virtual int ChangeOwnerAt(const char* path, uid_t user, gid_t group) = 0;                           // lchown
  virtual int ChangeModeAt(const char* path, mode_t mode) = 0;                                        // chmod
  virtual ssize_t ListAttributes(int fd, char* names, size_t size) = 0;                               // flistxattr
  virtual ssize_t GetAttribute(int fd, const char* name, void* value, size_t size) = 0;               // fgetxattr
  virtual int SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) = 0;  // fsetxattr

  // fcntl F_SETLEASE with F_RDLCK, F_WRLCK or F_UNLCK. A process that opens the file meanwhile waits, and the calling
  // thread is sent SIGURG, which ends no process (the default, SIGIO, does).
  virtual int SetLease(int fd, int type) = 0;
  virtual int GetLease(int fd) = 0;             // fcntl F_GETLEASE
  virtual int Lock(int fd, int operation) = 0;  // flock

  // Names.
  virtual int Rename(const char* from, const char* to) = 0;
  virtual int RenameNew(const char* from, const char* to) = 0;  // renameat2 with RENAME_NOREPLACE
  virtual int Exchange(const char* a, const char* b) = 0;       // renameat2 with RENAME_EXCHANGE
  virtual int Link(const char* from, const char* to) = 0;
  virtual int Unlink(const char* path) = 0;
  virtual ssize_t ReadLink(const char* path, char* text, size_t size) = 0;
  virtual int RealPath(const char* path, std::string* resolved) = 0;
  virtual int CurrentDirectory(std::string* path) = 0;  // getcwd

  // Directories.
  virtual int MakeDirectory(const char* path, mode_t mode) = 0;  // mkdir
  virtual int MakeUniqueDirectory(char* pattern) = 0;            // mkdtemp: fills in the "XXXXXX" at the end
  virtual int RemoveDirectory(const char* path) = 0;             // rmdir
  // Appends the names in the directory, without "." and "..", unsorted. After a failure some may be missing.
  virtual int List(const char* path, std::vector<std::string>* names) = 0;

  // Names below an open directory. A link in the last place is not followed; opening one fails with ELOOP. openat2 with
  // RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS: `path` may have several parts.
  virtual int OpenBeneath(int directory, const char* path, int flags, mode_t mode) = 0;
  virtual int OpenAt(int directory, const char* name, int flags, mode_t mode) = 0;  // openat with O_NOFOLLOW
  virtual int StatAt(int directory, const char* name, struct stat* about) = 0;      // fstatat, AT_SYMLINK_NOFOLLOW
  virtual int RenameAt(int from_directory, const char* from, int to_directory, const char* to,
                       unsigned flags) = 0;  // renameat2
  virtual int LinkAt(int from_directory, const char* from, int to_directory, const char* to) = 0;
  virtual int UnlinkAt(int directory, const char* name, int flags) = 0;  // AT_REMOVEDIR: rmdir
  virtual int MakeDirectoryAt(int directory, const char* name, mode_t mode) = 0;
  virtual int ListAt(int directory, std::vector<std::string>* names) = 0;  // as List

  // inotify_add_watch: resolves `path`, so it may block on its mount like every other call.
  virtual int AddWatch(int queue, const char* path, uint32_t mask) = 0;
};

// Forwards every call to another FileSystem.
class FileSystemWrapper : public FileSystem {
 public:
  explicit FileSystemWrapper(FileSystem& target = Real()) : target_(target) {}

  int Open(const char* path, int flags, mode_t mode) override;
  int Close(int fd) override;
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override;
  ssize_t Write(int fd, const void* bytes, size_t count) override;
  ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset) override;
  int Truncate(int fd, off_t size) override;
  int Reserve(int fd, off_t offset, off_t length) override;
  int Sync(int fd) override;
  int Stat(const char* path, struct stat* about) override;
  int Lstat(const char* path, struct stat* about) override;
  int Fstat(int fd, struct stat* about) override;
  int Access(const char* path, int mode) override;
  int ChangeOwner(int fd, uid_t user, gid_t group) override;
  int ChangeMode(int fd, mode_t mode) override;
  int ChangeOwnerAt(const char* path, uid_t user, gid_t group) override;
  int ChangeModeAt(const char* path, mode_t mode) override;
  ssize_t ListAttributes(int fd, char* names, size_t size) override;
  ssize_t GetAttribute(int fd, const char* name, void* value, size_t size) override;
  int SetAttribute(int fd, const char* name, const void* value, size_t size, int flags) override;
  int SetLease(int fd, int type) override;
  int GetLease(int fd) override;
  int Lock(int fd, int operation) override;
  int Rename(const char* from, const char* to) override;
  int RenameNew(const char* from, const char* to) override;
  int Exchange(const char* a, const char* b) override;
  int Link(const char* from, const char* to) override;
  int Unlink(const char* path) override;
  ssize_t ReadLink(const char* path, char* text, size_t size) override;
  int RealPath(const char* path, std::string* resolved) override;
  int CurrentDirectory(std::string* path) override;
  int MakeDirectory(const char* path, mode_t mode) override;
  int MakeUniqueDirectory(char* pattern) override;
  int RemoveDirectory(const char* path) override;
  int List(const char* path, std::vector<std::string>* names) override;
  int OpenBeneath(int directory, const char* path, int flags, mode_t mode) override;
  int OpenAt(int directory, const char* name, int flags, mode_t mode) override;
  int StatAt(int directory, const char* name, struct stat* about) override;
  int RenameAt(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) override;
  int LinkAt(int from_directory, const char* from, int to_directory, const char* to) override;
  int UnlinkAt(int directory, const char* name, int flags) override;
  int MakeDirectoryAt(int directory, const char* name, mode_t mode) override;
  int ListAt(int directory, std::vector<std::string>* names) override;
  int AddWatch(int queue, const char* path, uint32_t mask) override;

 private:
  FileSystem& target_;
};

// Repeats a call as long as a signal interrupts it.
template <class Call>
auto RepeatInterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace stepwatch::base
