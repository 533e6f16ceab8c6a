#include "src/step/heatmap_queue.h"

#include <new>
#include <utility>

namespace stepwatch::step {

void HeatmapQueue::Put(HeatmapStep step) noexcept {
  const base::MutexLock lock(&mutex_);
  try {
    Append(std::move(step));
  } catch (const std::bad_alloc&) {
    ++lost_;
  }
}

void HeatmapQueue::Append(HeatmapStep step) {
  if (!steps_.empty() && steps_.back().step == step.step) {
    auto& columns = steps_.back().columns;
    columns.insert(columns.end(), step.columns.begin(), step.columns.end());
    return;
  }
  if (steps_.size() == kStepsMax) {
    steps_.pop_front();
    ++lost_;
  }
  steps_.push_back(std::move(step));
}

std::optional<HeatmapStep> HeatmapQueue::Take(int64_t step) {
  const base::MutexLock lock(&mutex_);
  while (!steps_.empty() && steps_.front().step < step) {
    steps_.pop_front();
    ++lost_;
  }
  if (steps_.empty() || steps_.front().step > step) return std::nullopt;
  HeatmapStep taken = std::move(steps_.front());
  steps_.pop_front();
  return taken;
}

uint64_t HeatmapQueue::lost() const {
  const base::MutexLock lock(&mutex_);
  return lost_;
}

}  // namespace stepwatch::step
