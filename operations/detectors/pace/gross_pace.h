// The pace of a run with all its waits: one that waits longer and longer for data now and then trains more slowly,
// though most of its steps take as long as ever.
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
  // Freezes the learnt level, if there are samples enough.
  void Freeze();
  // The last blocks are of a slowness that is over.
  void Forget();
  bool IsLow() const { return is_low_; }
  // Work a second, the slowest blocks left out.
  double Rate() const;
  // The last step before the first of the slow blocks.
  int64_t SinceStep() const;
  double RateLearnt() const { return seconds_mean_ > 0 ? 1 / seconds_mean_ : 0; }

 private:
  void Learn(const Block& block);
  double SecondsNow() const;  // for a unit of work

  std::vector<Block> recent_;
  bool is_frozen_ = false;
  bool is_low_ = false;
  // Mean and sum of squared distances of the seconds that a unit of work took in blocks.
  double blocks_ = 0;
  double seconds_mean_ = 0;
  double squares_ = 0;
};

}  // namespace stepwatch::operations
