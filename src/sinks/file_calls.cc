#include "src/sinks/file_calls.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/file.h"

namespace stepwatch::sinks {

int FileCalls::Open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int FileCalls::Close(int fd) {
  return ::close(fd);
}
int FileCalls::Stat(const char* path, struct stat* about) {
  return ::stat(path, about);
}
int FileCalls::Fstat(int fd, struct stat* about) {
  return ::fstat(fd, about);
}
ssize_t FileCalls::Read(int fd, void* bytes, size_t count, off_t offset) {
  return ::pread(fd, bytes, count, offset);
}
ssize_t FileCalls::Write(int fd, const void* bytes, size_t count) {
  return ::write(fd, bytes, count);
}
int FileCalls::Truncate(int fd, off_t size) {
  return ::ftruncate(fd, size);
}
int FileCalls::RenameNew(const char* from, const char* to) {
  // The system call itself: glibc before 2.28 and musl have no wrapper.
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE));
}
int FileCalls::Rename(const char* from, const char* to) {
  return ::rename(from, to);
}
int FileCalls::Link(const char* from, const char* to) {
  return ::link(from, to);
}
int FileCalls::Unlink(const char* path) {
  return ::unlink(path);
}
Status FileCalls::MakeDirectories(const std::string& path) {
  return base::MakeDirectories(path);
}

}  // namespace stepwatch::sinks
