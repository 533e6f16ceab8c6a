// System calls that fail on order, for the fault tests of everything that writes through a FileSystem.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::sinks::test {

// What goes wrong: `failures` calls in a row, from the call with number `at` on (0-based, over all kinds of calls).
struct Fault {
  int at = -1;
  int failures = 1;
  int error_number = 0;
  bool half_written = false;  // the write before them takes only half
  bool can_rename = true;     // false: as a file system that cannot rename without replacing
};

struct Journal {
  std::vector<std::string> calls;
  bool fault_met = false;
};

class FaultyFiles : public base::FileSystemWrapper {
 public:
  FaultyFiles(Fault fault, Journal* journal) : fault_(fault), journal_(*journal) {}

  int Open(const char* path, int flags, mode_t mode) override {
    return Fails("open") ? -1 : FileSystemWrapper::Open(path, flags, mode);
  }
  int Close(int fd) override {
    // A failing close has closed all the same.
    const bool fails = Fails("close");
    const int error_number = errno;
    const int result = FileSystemWrapper::Close(fd);
    if (fails) errno = error_number;
    return fails ? -1 : result;
  }
  int Stat(const char* path, struct stat* about) override {
    return Fails("stat") ? -1 : FileSystemWrapper::Stat(path, about);
  }
  int Fstat(int fd, struct stat* about) override { return Fails("fstat") ? -1 : FileSystemWrapper::Fstat(fd, about); }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    return Fails("read") ? -1 : FileSystemWrapper::Read(fd, bytes, count, offset);
  }
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    const bool half = fault_.half_written && static_cast<int>(journal_.calls.size()) + 1 == fault_.at;
    if (Fails("write")) return -1;
    return FileSystemWrapper::Write(fd, bytes, half ? count / 2 : count);
  }
  int Truncate(int fd, off_t size) override { return Fails("truncate") ? -1 : FileSystemWrapper::Truncate(fd, size); }
  int RenameNew(const char* from, const char* to) override {
    if (Fails("rename")) return -1;
    if (fault_.can_rename) return FileSystemWrapper::RenameNew(from, to);
    errno = EINVAL;
    return -1;
  }
  int Rename(const char* from, const char* to) override {
    return Fails("replace") ? -1 : FileSystemWrapper::Rename(from, to);
  }
  int Link(const char* from, const char* to) override { return Fails("link") ? -1 : FileSystemWrapper::Link(from, to); }
  int Unlink(const char* path) override { return Fails("unlink") ? -1 : FileSystemWrapper::Unlink(path); }
  int MakeDirectory(const char* path, mode_t mode) override {
    return Fails("mkdir") ? -1 : FileSystemWrapper::MakeDirectory(path, mode);
  }

 private:
  bool Fails(const char* call) {
    const int number = static_cast<int>(journal_.calls.size());
    journal_.calls.push_back(call);
    if (fault_.at < 0 || number < fault_.at || number >= fault_.at + fault_.failures) return false;
    journal_.fault_met = true;
    errno = fault_.error_number;
    return true;
  }

  const Fault fault_;
  Journal& journal_;
};

}  // namespace stepwatch::sinks::test
