// System calls that fail on order, for the fault tests of everything that writes through a FileSystem.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "tests/hooked_files.h"

namespace stepwatch::sinks::test {

// Fails `failures` calls in a row, from the call with number `at` on (0-based, over all kinds of calls).
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

class FaultyFiles : public testing::HookedFiles {
 public:
  FaultyFiles(Fault fault, Journal* journal)
      : HookedFiles([this](std::string_view call) { return Meet(call); }), fault_(fault), journal_(*journal) {}

  ssize_t Write(int fd, const void* bytes, size_t count) override {
    const bool half = fault_.half_written && static_cast<int>(journal_.calls.size()) + 1 == fault_.at;
    return HookedFiles::Write(fd, bytes, half ? count / 2 : count);
  }
  int RenameNew(const char* from, const char* to) override {
    if (fault_.can_rename) return HookedFiles::RenameNew(from, to);
    const int error = Meet("renameat2");
    return errno = error == 0 ? EINVAL : error, -1;
  }

 private:
  // The errno that the next call fails with, or 0.
  int Meet(std::string_view call) {
    const int number = static_cast<int>(journal_.calls.size());
    journal_.calls.emplace_back(call);
    if (fault_.at < 0 || number < fault_.at || number >= fault_.at + fault_.failures) return 0;
    journal_.fault_met = true;
    return fault_.error_number;
  }

  const Fault fault_;
  Journal& journal_;
};

}  // namespace stepwatch::sinks::test
