#include "front_ends/shared/registered_monitors.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace stepwatch::front_end {

bool MayHandle() noexcept {
  const char* const wanted = std::getenv("STEPWATCH_SIGNALS");
  return wanted == nullptr || std::string_view(wanted) != "0";
}

void RegisteredMonitors::Add(Monitor* monitor) noexcept {
  for (std::atomic<Monitor*>& each : monitors_) {
    Monitor* free = nullptr;
    if (each.compare_exchange_strong(free, monitor, std::memory_order_seq_cst)) return;
  }
}

// A handler on another thread that has found the monitor may use it for some microseconds.
void RegisteredMonitors::Remove(Monitor* monitor) noexcept {
  for (std::atomic<Monitor*>& each : monitors_) {
    Monitor* found = monitor;
    (void)each.compare_exchange_strong(found, nullptr, std::memory_order_seq_cst);
  }
  constexpr int kLooksMax = 1000;  // in a forked child, handlers of threads that were not forked stay counted
  for (int i = 0; i < kLooksMax && visits_.load(std::memory_order_seq_cst) > 0; ++i) ::usleep(100);
}

}  // namespace stepwatch::front_end
