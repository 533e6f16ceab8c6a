// Decides which steps a plan collects.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/step_bucket.h"

namespace stepwatch::plan {

// A step is collected if it is not before `start`, a multiple of `interval` away from it, and fewer than `times` steps
// of the plan have been collected.
struct StepRule {
  int64_t start = 0;
  int64_t interval = 1;  // at least 1
  int64_t times = 0;

  bool Collects(int64_t step, int64_t collected) const {
    return collected < times && step >= start && (step - start) % interval == 0;
  }
  // Index of a collected step among the collected ones, from 0, whether or not earlier ones were missed.
  int64_t Round(int64_t step) const { return (step - start) / interval; }
  // Number of steps before `step` that were due, whether or not they were collected.
  int64_t TurnsBefore(int64_t step) const { return step <= start ? 0 : (step - start - 1) / interval + 1; }
  // Number of steps collected before `step`, if none was missed.
  int64_t CollectedBefore(int64_t step) const { return std::min(times, TurnsBefore(step)); }
};

using base::FileBucket;

}  // namespace stepwatch::plan
