// Columns of heat maps on their way from the step thread to the drain thread: a step of them at a time.
//
// They are too big and too few for the ring of records: one call a step, under a lock that both sides hold only for as
// long as it takes to move a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/mutex.h"
#include "stepwatch/heatmap.h"

namespace stepwatch::step {

// What one step adds to heat maps.
struct HeatmapStep {
  int64_t step = 0;
  std::vector<HeatmapColumn> columns;
};

class HeatmapQueue {
 public:
  // Steps that may wait; one more drives out the oldest. The drain takes a step as soon as its frame is closed.
  static constexpr size_t kStepsMax = 64;

  // Step thread; steps in ascending order. Several calls in one step add up. Without memory for it a step is lost.
  void Put(HeatmapStep step) noexcept;
  // Drain thread: the columns of that step, if there are any. Those of steps before it, of which no frame has come, are
  // lost.
  std::optional<HeatmapStep> Take(int64_t step);
  // Steps that nobody has taken and nobody will.
  uint64_t lost() const;

 private:
  void Append(HeatmapStep step) STEPWATCH_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  std::deque<HeatmapStep> steps_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t lost_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::step
