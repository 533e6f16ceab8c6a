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
  char state = '?';                       // as in base::ProcessStat
  std::string system_call;                // that it is in: "futex", or its number; empty: none, or not for this user
  std::string waits_in;                   // the function of the kernel; empty: in none, or not for this user
  std::vector<std::string> kernel_stack;  // innermost first; for root alone
};

inline constexpr size_t kThreadsMax = 256;

// At most kThreadsMax, the main thread first; empty if the process does not exist.
std::vector<ThreadLook> LookAtThreads(int pid, base::FileSystem& files);

// A line for each thread, for people; threads that are all alike stand in one line.
std::string ThreadsText(const std::vector<ThreadLook>& threads);

}  // namespace stepwatch::operations
