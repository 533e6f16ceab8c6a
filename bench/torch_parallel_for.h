// The threads that a front end would lend: two, each pinned to a processor of its own.
#pragma once

#include <sched.h>

#include "stepwatch/parallel_for.h"

namespace stepwatch::bench {

// torch's own pool where torch is there, else OpenMP's.
const char* LentThreadsName();
void RunOnTwoThreads(int64_t count, ParallelBody body, void* context);

// Pins the caller and the other thread to two of the processors that this process may use, as long as it lives.
class PinnedPair {
 public:
  PinnedPair();
  ~PinnedPair();
  PinnedPair(const PinnedPair&) = delete;
  PinnedPair& operator=(const PinnedPair&) = delete;
  // Empty, or why there is no pair: one processor, or nobody came to help.
  const char* problem() const { return problem_; }

 private:
  cpu_set_t before_;
  const char* problem_ = "";
};

}  // namespace stepwatch::bench
