// Waits for what another thread or process does.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace stepwatch::testing {

// As long as a slow machine may need.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace stepwatch::testing
