// Now, in the clock in which stepwatchd tells times.
#pragma once

#include <chrono>

namespace stepwatch::cli {

inline double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace stepwatch::cli
