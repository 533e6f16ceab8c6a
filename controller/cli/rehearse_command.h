// `stepwatch rehearse FILE`: the whole real system, control plane included, on a synthetic model: the way to try a
// config before touching a job, and to play the state machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stepwatch::cli {

struct RehearseArguments {
  std::string file;
  int64_t steps = 20;
  std::chrono::microseconds step_time{10000};
  int sites = 4;  // layers of the synthetic model
  int64_t elements = 1024;
  int grad_acc = 1;
  int64_t start_iteration = 0;
  bool dynamic = false;  // false: DYNAMIC_MONITOR decides
  std::string out;       // empty: MONITOR_OUTPUT_DIR, else ./monitor_output
  int rank = 0;
  int world_size = 1;
  std::string store;  // a directory that the ranks share; empty: each goes by itself
  bool json = false;
};

// 0: the last step was reached, whatever was refused on the way; 2: static mode and the config is unusable. On return
// all rows and the write-back are done.
int RunRehearse(const RehearseArguments& arguments);

}  // namespace stepwatch::cli
