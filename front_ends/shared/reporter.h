// Events that arise in a front end, told like those of the core.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "stepwatch/event.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

// Tells events that arise in the front end. Shares a lock with the core's, so that the user's function is never called
// twice at once. Nothing here throws.
class Reporter {
 public:
  explicit Reporter(std::function<void(const Event&)> on_event) : on_event_(std::move(on_event)) {}

  void Tell(const Event& event);
  void Warn(std::string message) noexcept;
  // Once per kind for the life of the monitor.
  void Unmeasurable(SiteKind kind, const char* problem) noexcept;
  // Once for the life of the monitor: the first exception of torch or of ours on the training thread.
  void Caught(const char* where, const char* what) noexcept;

 private:
  std::mutex mutex_;
  std::function<void(const Event&)> on_event_;
  std::atomic<uint32_t> unmeasurable_{0};  // a bit per SiteKind
  std::atomic<bool> caught_{false};
};

// Runs something of ours on the training thread: whatever it throws ends here, told once.
template <class F>
void Guarded(Reporter& reporter, const char* where, const F& f) noexcept {
  try {
    f();
  } catch (const std::exception& e) {
    reporter.Caught(where, e.what());
  } catch (...) {
    reporter.Caught(where, "an unknown exception");
  }
}

}  // namespace stepwatch::front_end
