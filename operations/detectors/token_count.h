// Whether the tokens that a run tells are those of a step, or a count of all so far.
#pragma once

#include <cstdint>

namespace stepwatch::operations {

class TokenCount {
 public:
  void Add(int64_t rank, int64_t step, double tokens, double now);
  bool is_count() const { return is_count_ && !costs_time_; }

 private:
  void TakeTime(int64_t step, double now);

  int64_t rank_ = -1;  // whose tokens are looked at
  int64_t first_step_ = 0;
  double first_ = 0;
  double last_ = 0;
  int64_t rising_ = 0;
  int64_t near_ = 0;  // of these in a row, that came from nought
  bool is_count_ = false;
  double at_ = 0;  // of the last sample, and its step
  int64_t step_ = 0;
  double step_seconds_ = 0;  // smoothed
  double first_step_seconds_ = 0;
  bool costs_time_ = false;  // steps take longer as it rises
};

}  // namespace stepwatch::operations
