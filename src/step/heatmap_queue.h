// Passes columns of heat maps from the step thread to the drain thread, one step at a time.
//
// They are too big and too few for the ring of records: one call a step, under a lock that both sides hold only while a
// vector is moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/mutex.h"
#include "stepwatch/heatmap.h"

namespace stepwatch::step {

// Heat-map columns of one step.
struct HeatmapStep {
  int64_t step = 0;
  std::vector<HeatmapColumn> columns;
};

class HeatmapQueue {
 public:
  // Maximum of waiting steps; one more discards the oldest. The drain takes a step as soon as its frame is closed.
  static constexpr size_t kStepsMax = 64;

  // Step thread; steps in ascending order. Several calls in one step add up. If memory runs out, the step is lost.
  void Put(HeatmapStep step) noexcept;
  // Drain thread: the columns of the step, if any. Columns of earlier steps, whose frame has not arrived, are lost.
  std::optional<HeatmapStep> Take(int64_t step);
  // Number of steps that were lost.
  uint64_t lost() const;

 private:
  void Append(HeatmapStep step) STEPWATCH_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  std::deque<HeatmapStep> steps_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t lost_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::step
