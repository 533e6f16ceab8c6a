// System calls that fail on order, for the fault tests of everything that writes through FileCalls.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/sinks/file_calls.h"

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

class FaultyCalls : public FileCalls {
 public:
  FaultyCalls(Fault fault, Journal* journal) : fault_(fault), journal_(*journal) {}

  int Open(const char* path, int flags, mode_t mode) override {
    return Fails("open") ? -1 : FileCalls::Open(path, flags, mode);
  }
  int Close(int fd) override {
    // A failing close has closed all the same.
    const bool fails = Fails("close");
    const int error_number = errno;
    const int result = FileCalls::Close(fd);
    if (fails) errno = error_number;
    return fails ? -1 : result;
  }
  int Stat(const char* path, struct stat* about) override { return Fails("stat") ? -1 : FileCalls::Stat(path, about); }
  int Fstat(int fd, struct stat* about) override { return Fails("fstat") ? -1 : FileCalls::Fstat(fd, about); }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    return Fails("read") ? -1 : FileCalls::Read(fd, bytes, count, offset);
  }
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    const bool half = fault_.half_written && static_cast<int>(journal_.calls.size()) + 1 == fault_.at;
    if (Fails("write")) return -1;
    return FileCalls::Write(fd, bytes, half ? count / 2 : count);
  }
  int Truncate(int fd, off_t size) override { return Fails("truncate") ? -1 : FileCalls::Truncate(fd, size); }
  int RenameNew(const char* from, const char* to) override {
    if (Fails("rename")) return -1;
    if (fault_.can_rename) return FileCalls::RenameNew(from, to);
    errno = EINVAL;
    return -1;
  }
  int Rename(const char* from, const char* to) override { return Fails("replace") ? -1 : FileCalls::Rename(from, to); }
  int Link(const char* from, const char* to) override { return Fails("link") ? -1 : FileCalls::Link(from, to); }
  int Unlink(const char* path) override { return Fails("unlink") ? -1 : FileCalls::Unlink(path); }
  Status MakeDirectories(const std::string& path) override {
    if (Fails("mkdir")) return base::ErrnoStatus("cannot create the directory", path, errno);
    return FileCalls::MakeDirectories(path);
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
