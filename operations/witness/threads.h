// The threads of a process, as /proc shows them to this user: no thread is stopped for it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct ThreadLook {
  int id = 0;
  std::string name;
  char state = '?';         // as in base::ProcessStat
  std::string system_call;  // its system call: "futex", or its number; empty: none, or hidden from this user
  std::string waits_in;     // the kernel function; empty: none, or hidden from this user
  std::vector<std::string> kernel_stack;  // innermost first; for root alone
};

inline constexpr size_t kThreadsMax = 256;

// At most kThreadsMax, the main thread first; empty if the process does not exist.
std::vector<ThreadLook> LookAtThreads(int pid, base::FileSystem& files);

// Text for people, one line for each thread; threads with equal looks share a line.
std::string ThreadsText(const std::vector<ThreadLook>& threads);

}  // namespace stepwatch::operations
