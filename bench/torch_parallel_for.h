// The threads that a front end would lend: two, each pinned to a separate processor.
#pragma once

#include <sched.h>

#include "stepwatch/parallel_for.h"

namespace stepwatch::bench {

// Returns the name of the pool: that of torch in a build with torch, else that of OpenMP.
const char* LentThreadsName();
void RunOnTwoThreads(int64_t count, ParallelBody body, void* context);

// Pins the caller and the other thread to two of this process's processors during its life.
class PinnedPair {
 public:
  PinnedPair();
  ~PinnedPair();
  PinnedPair(const PinnedPair&) = delete;
  PinnedPair& operator=(const PinnedPair&) = delete;
  // Empty, or the reason why there is no pair: one processor, or no second thread.
  const char* problem() const { return problem_; }

 private:
  cpu_set_t before_;
  const char* problem_ = "";
};

}  // namespace stepwatch::bench
