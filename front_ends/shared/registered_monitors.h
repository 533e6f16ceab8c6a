// The monitors that receive signals and exceptions from the handlers of the process.
//
// Handlers run until the process ends, so the list has static duration and is never destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// False if the user disables all handlers (STEPWATCH_SIGNALS=0).
bool MayHandle() noexcept;

class RegisteredMonitors {
 public:
  // Marks a handler as running for the life of this object.
  class Visit {
   public:
    explicit Visit(RegisteredMonitors* monitors) noexcept : list_(monitors) {
      list_->visits_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Visit() { list_->visits_.fetch_sub(1, std::memory_order_seq_cst); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    // Async-signal-safe if `use` is.
    template <class F>
    void ForEach(const F& use) const noexcept {
      for (std::atomic<Monitor*>& each : list_->monitors_)
        if (Monitor* monitor = each.load(std::memory_order_seq_cst)) use(monitor);
    }

   private:
    RegisteredMonitors* const list_;
  };

  // Any thread. Monitors beyond kMonitorsMax are not registered.
  void Add(Monitor* monitor) noexcept;
  // Any thread; afterwards no handler uses the monitor.
  void Remove(Monitor* monitor) noexcept;

 private:
  static constexpr size_t kMonitorsMax = 64;

  std::array<std::atomic<Monitor*>, kMonitorsMax> monitors_{};
  std::atomic<int> visits_{0};
};

}  // namespace stepwatch::front_end
