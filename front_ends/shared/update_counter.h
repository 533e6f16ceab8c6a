// The updates of one parameter in one step. Rows of further updates have the update's number as the number of the call;
// the drain renumbers them once the last is known.
#pragma once

#include <cstdint>

#include "stepwatch/record.h"

namespace stepwatch::front_end {

class UpdateCounter {
 public:
  // Returns the number of earlier updates in this step, with kRepeatedUpdate if this one repeats another.
  uint16_t Begin(uint32_t step) noexcept {
    if (step_ != step) {
      step_ = step;
      begun_ = 0;
      has_failed_ = false;
    }
    current_ = begun_ | (has_failed_ ? kRepeatedUpdate : uint16_t{0});
    has_failed_ = false;
    if (begun_ < kUpdatesMax) ++begun_;
    return current_;
  }
  // The last one has failed: the next one repeats it.
  void Abandon(uint32_t step) noexcept {
    if (step_ != step || begun_ == 0) return;
    --begun_;
    has_failed_ = true;
  }
  // Returns what the last Begin returned, 0 if no update has begun in this step.
  uint16_t Current(uint32_t step) const noexcept { return step_ != step || begun_ == 0 ? uint16_t{0} : current_; }

 private:
  static constexpr uint16_t kUpdatesMax = 0x7ffe;

  uint32_t step_ = 0;
  uint16_t begun_ = 0;
  uint16_t current_ = 0;
  bool has_failed_ = false;  // the last one
};

}  // namespace stepwatch::front_end
