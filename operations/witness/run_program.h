// Runs a tool and returns its output, with a limit on time and bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations {

struct ProgramOutput {
  int exit_code = 0;  // 128 + the number of the signal that ended it
  std::string out;    // bytes beyond the limit are discarded
  std::string err;
  bool is_cut = false;     // there was more
  bool timed_out = false;  // it was asked to end, and then killed
};

struct ProgramLimits {
  std::chrono::milliseconds time{10000};
  size_t bytes_max = size_t{4} << 20;  // of each of the two
  int stop_fd = -1;                    // becomes readable: the program is ended at once
};

// Blocks until it has ended: for a thread that may wait. `arguments[0]` is the path of the program; no shell interprets
// them. It gets /dev/null as input, this process's environment without LD_PRELOAD and variables that control Python,
// and no other descriptor of this process. All processes of its process group are killed with it, also when this
// process is killed meanwhile. kUnavailable: it cannot be started.
Result<ProgramOutput> RunProgram(const std::vector<std::string>& arguments, const ProgramLimits& limits = {});

}  // namespace stepwatch::operations
