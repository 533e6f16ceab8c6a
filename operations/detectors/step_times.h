// What ranks took for the same steps, as far as they tell.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace stepwatch::operations {

class StepTimes {
 public:
  // Only the newest steps are kept, and of each so many ranks that more would say the same.
  void Add(int64_t step, double seconds);
  // The middle of them; 0 where too few ranks tell of that step.
  double MiddleOf(int64_t step) const;

 private:
  std::map<int64_t, std::vector<float>> seconds_;
};

}  // namespace stepwatch::operations
