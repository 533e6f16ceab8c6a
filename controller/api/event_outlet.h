// The only path of events to the program: calls the user's function, one event at a time, until it is closed.
//
// Close may abandon a thread that hangs. When that thread continues, it finds the outlet closed.
#pragma once

#include <chrono>
#include <functional>

#include "src/base/mutex.h"
#include "stepwatch/event.h"

namespace stepwatch::api {

class EventOutlet {
 public:
  explicit EventOutlet(std::function<void(const Event&)> on_event) : on_event_(std::move(on_event)) {}

  // Loop thread, or before it runs. The function may call it recursively. Its exceptions are swallowed.
  void Emit(const Event& event) noexcept;
  // Emits no more events. Waits for a call in progress until the deadline; false: the user's function hangs.
  bool Close(std::chrono::steady_clock::time_point deadline) noexcept;

 private:
  const std::function<void(const Event&)> on_event_;
  base::Mutex mutex_;  // never held while the function runs
  base::Condition quiet_;
  int calls_ STEPWATCH_GUARDED_BY(mutex_) = 0;  // in progress
  bool closed_ STEPWATCH_GUARDED_BY(mutex_) = false;
};

}  // namespace stepwatch::api
