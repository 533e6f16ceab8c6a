// Measures the time that the step thread takes to apply plans.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace stepwatch::step {

struct SwapTimes {
  uint64_t swaps = 0;
  uint64_t total_ns = 0;
  uint64_t longest_ns = 0;
};

// Written by one thread, read by any. A reader may see one figure of a swap without the others.
class SwapMeter {
 public:
  void Add(std::chrono::steady_clock::duration time) noexcept {
    const auto ns = static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
    const SwapTimes before = Read();
    swaps_.store(before.swaps + 1, std::memory_order_relaxed);
    total_ns_.store(before.total_ns + ns, std::memory_order_relaxed);
    longest_ns_.store(std::max(before.longest_ns, ns), std::memory_order_relaxed);
  }
  SwapTimes Read() const noexcept {
    return {swaps_.load(std::memory_order_relaxed), total_ns_.load(std::memory_order_relaxed),
            longest_ns_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> swaps_{0}, total_ns_{0}, longest_ns_{0};
};

}  // namespace stepwatch::step
