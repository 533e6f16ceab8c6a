// Compares the wall clock with the time that really passed, and detects that this process did not run. Pure.
#pragma once

#include <optional>

namespace stepwatch::operations {

struct ClockLook {
  double wall = 0;     // CLOCK_REALTIME
  double running = 0;  // CLOCK_MONOTONIC, which stands still while the machine sleeps
};

ClockLook LookAtClocks();

class ClockWatch {
 public:
  // A smaller step is slewing, or two clocks read one after the other.
  static constexpr double kStepSecondsMin = 0.5;
  // Limit between two looks, which are a second apart. After a longer time this process was stopped, or got no
  // processor: no rank was watched meanwhile, and the silence of that time counts for no rank.
  static constexpr double kBlindSecondsMin = 5;

  // The seconds since the last look that did not pass for the watched jobs: by how much the wall clock was set forward
  // (back: negative), how long the machine slept, how long this process did not run. 0: no difference.
  double Look(const ClockLook& look);

 private:
  std::optional<ClockLook> last_;
};

}  // namespace stepwatch::operations
