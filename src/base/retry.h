// The pauses between attempts that fail: each is longer than the one before.
#pragma once

#include <algorithm>

namespace stepwatch::base {

// In seconds: `first`, then each `factor` times the one before, `most` at most.
class Retry {
 public:
  constexpr Retry(double first, double most, double factor = 2) : first_(first), most_(most), factor_(factor) {}

  // The pause before the next attempt.
  double Next() {
    pause_ = pause_ == 0 ? first_ : std::min(factor_ * pause_, most_);
    return pause_;
  }
  // An attempt succeeded: the next pause is the first one again.
  void Reset() { pause_ = 0; }
  double most() const { return most_; }

 private:
  double first_;
  double most_;
  double factor_;
  double pause_ = 0;
};

}  // namespace stepwatch::base
