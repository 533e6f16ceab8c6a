#include "operations/detectors/step_times.h"

#include <algorithm>

namespace stepwatch::operations {
namespace {

constexpr size_t kStepsMax = 64;
constexpr size_t kRanksMax = 64;
constexpr size_t kRanksMin = 3;

}  // namespace

void StepTimes::Add(int64_t step, double seconds) {
  if (seconds_.size() >= kStepsMax && seconds_.count(step) == 0) {
    if (step < seconds_.begin()->first) return;
    seconds_.erase(seconds_.begin());
  }
  std::vector<float>& ranks = seconds_[step];
  if (ranks.size() < kRanksMax) ranks.push_back(static_cast<float>(seconds));
}

double StepTimes::MiddleOf(int64_t step) const {
  const auto found = seconds_.find(step);
  if (found == seconds_.end() || found->second.size() < kRanksMin) return 0;
  std::vector<float> seconds = found->second;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace stepwatch::operations
