// Whether the tokens that a run tells are those of a step, or a count of all so far.
#pragma once

#include <cstdint>

namespace stepwatch::operations {

// A count rises all the time, and costs none: a step takes no longer, however high it is. A step of more tokens does.
class TokenCount {
 public:
  void Add(int64_t rank, int64_t step, double tokens, double now);
  bool is_count() const { return is_count_; }

 private:
  int64_t rank_ = -1;  // whose tokens are looked at
  int64_t step_ = 0;   // of the last sample
  double at_ = 0;
  double tokens_ = 0;
  int64_t rising_ = 0;       // samples in a row
  double step_seconds_ = 0;  // smoothed
  double tokens_before_ = 0;
  double step_seconds_before_ = 0;  // when there were so many
  bool is_count_ = false;
};

}  // namespace stepwatch::operations
