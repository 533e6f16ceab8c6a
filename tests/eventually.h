// Waits for an effect of another thread or process.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace stepwatch::testing {

// Enough for a slow machine.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace stepwatch::testing
