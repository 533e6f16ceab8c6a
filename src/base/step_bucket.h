// Assigns steps to the files of a series.
#pragma once

#include <cstdint>

namespace stepwatch::base {

// The first step of the file that holds `step`, when each file holds `count` steps (at least 1): buckets are absolute,
// also for negative steps.
inline int64_t FileBucket(int64_t step, int64_t count) {
  const int64_t remainder = step % count;
  return step - (remainder < 0 ? remainder + count : remainder);
}

}  // namespace stepwatch::base
