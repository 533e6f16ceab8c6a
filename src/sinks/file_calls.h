// The system calls with which the sinks touch files, behind one seam so that a test can make each of them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "stepwatch/status.h"

namespace stepwatch::sinks {

// Each call is the POSIX call of its name: -1 and errno on failure. EINTR is the caller's matter.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int Open(const char* path, int flags, mode_t mode);
  virtual int Close(int fd);
  virtual int Stat(const char* path, struct stat* about);
  virtual int Fstat(int fd, struct stat* about);
  virtual ssize_t Read(int fd, void* bytes, size_t count, off_t offset);  // pread
  virtual ssize_t Write(int fd, const void* bytes, size_t count);
  virtual int Truncate(int fd, off_t size);                 // ftruncate
  virtual int RenameNew(const char* from, const char* to);  // renameat2 with RENAME_NOREPLACE
  virtual int Rename(const char* from, const char* to);
  virtual int Link(const char* from, const char* to);
  virtual int Unlink(const char* path);
  virtual Status MakeDirectories(const std::string& path);
};

template <class Call>
auto RepeatInterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace stepwatch::sinks
