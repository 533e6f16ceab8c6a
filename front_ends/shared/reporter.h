// Passes events of a front end to the monitor's loop, which reports them like those of the core.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/event.h"
#include "stepwatch/monitor.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

// Enqueues events and returns: hooks report from inside a step, which must not wait for a callback of the user. No
// function here throws.
class Reporter {
 public:
  // Sends events to `monitor` from now on, earlier ones included. Null: later events are discarded. The monitor lives
  // until another call has returned.
  void Connect(Monitor* monitor) noexcept;

  void Report(Event event) noexcept;
  void Warn(std::string message) noexcept;
  // Warns if `warned` is not set yet, and sets it. `text()` returns the message.
  template <class Text>
  void WarnOnce(std::atomic<bool>* warned, const Text& text) noexcept {
    if (warned->load(std::memory_order_relaxed) || warned->exchange(true)) return;
    try {
      Warn(text());
    } catch (const std::bad_alloc&) {  // no memory for the message
    }
  }
  // Warns once per kind for the life of the monitor.
  void Unmeasurable(SiteKind kind, const char* problem) noexcept;
  // Reports only the first exception of torch or Stepwatch on the training thread, for the life of the monitor.
  void Caught(const char* where, const char* what) noexcept;

 private:
  static constexpr size_t kEarlyMax = 64;

  std::mutex mutex_;                       // never held while a function of the user runs
  Monitor* monitor_ = nullptr;             // guarded by mutex_
  bool ever_connected_ = false;            // guarded by mutex_
  std::vector<Event> early_;               // guarded by mutex_; events before Connect
  std::atomic<uint32_t> unmeasurable_{0};  // a bit per SiteKind
  std::atomic<bool> caught_{false};
};

// Runs a function of Stepwatch on the training thread: an exception does not leave it and is reported once.
template <class F>
void CatchAndReport(Reporter& reporter, const char* where, const F& f) noexcept {
  try {
    f();
  } catch (const std::exception& e) {
    reporter.Caught(where, e.what());
  } catch (...) {
    reporter.Caught(where, "an unknown exception");
  }
}

}  // namespace stepwatch::front_end
