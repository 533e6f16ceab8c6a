// The pace of a run including all waits: a run with ever longer occasional waits for data trains more slowly, though
// most of its steps are as fast as before.
#pragma once

#include <cstdint>
#include <vector>

namespace stepwatch::operations {

class GrossPace {
 public:
  // Work may be steps or tokens.
  struct Block {
    int64_t step = 0;  // before it
    double work = 0;
    double seconds = 0;
  };

  void Add(const Block& block);
  // Freezes the learnt level, if there are enough samples.
  void Freeze();
  // The last blocks belong to a slowness that is over.
  void Forget();
  bool IsLow() const { return is_low_; }
  // Work per second, without the slowest blocks.
  double Rate() const;
  // The last step before the first of the slow blocks.
  int64_t SinceStep() const;
  double RateLearnt() const { return seconds_mean_ > 0 ? 1 / seconds_mean_ : 0; }

 private:
  void Learn(const Block& block);
  double SecondsNow() const;  // per unit of work

  std::vector<Block> recent_;
  bool is_frozen_ = false;
  bool is_low_ = false;
  // Mean and sum of squared distances of the seconds per unit of work in blocks.
  double blocks_ = 0;
  double seconds_mean_ = 0;
  double squares_ = 0;
};

}  // namespace stepwatch::operations
