// The monitors that the handlers of the process tell of signals and exceptions.
//
// Handlers are the process's, and so is what they reach: a list of static duration, which is never destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// False: the user wants every handler of the process left alone (STEPWATCH_SIGNALS=0).
bool MayHandle() noexcept;

class ToldMonitors {
 public:
  // A handler is running while one of these lives.
  class Visit {
   public:
    explicit Visit(ToldMonitors* told) noexcept : told_(told) {
      told_->visits_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Visit() { told_->visits_.fetch_sub(1, std::memory_order_seq_cst); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    // Async-signal-safe if `tell` is.
    template <class F>
    void ForEach(const F& tell) const noexcept {
      for (std::atomic<Monitor*>& each : told_->monitors_)
        if (Monitor* monitor = each.load(std::memory_order_seq_cst)) tell(monitor);
    }

   private:
    ToldMonitors* const told_;
  };

  // Any thread. Beyond some dozens a monitor is not told.
  void Add(Monitor* monitor) noexcept;
  // Any thread; afterwards no handler uses the monitor.
  void Remove(Monitor* monitor) noexcept;

 private:
  static constexpr size_t kMonitorsMax = 64;

  std::array<std::atomic<Monitor*>, kMonitorsMax> monitors_{};
  std::atomic<int> visits_{0};
};

}  // namespace stepwatch::front_end
