// Whether the tokens that a run tells are those of a step, or a count of all so far.
#pragma once

#include <cstdint>

namespace stepwatch::operations {

class TokenCount {
 public:
  void Add(int64_t rank, int64_t step, double tokens);
  bool is_count() const { return is_count_; }

 private:
  int64_t rank_ = -1;  // whose tokens are looked at
  int64_t first_step_ = 0;
  double first_ = 0;
  double last_ = 0;
  int64_t rising_ = 0;
  int64_t near_ = 0;  // of these in a row, that came from nought
  bool is_count_ = false;
};

}  // namespace stepwatch::operations
