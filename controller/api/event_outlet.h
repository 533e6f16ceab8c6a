// The one control socket through which events leave: it calls the user's function, one event at a time, until it is
// closed.
//
// A thread of ours that hangs may be left behind by Close and come back to life much later. It finds the control socket
// closed.
#pragma once

#include <chrono>
#include <functional>

#include "src/base/mutex.h"
#include "stepwatch/event.h"

namespace stepwatch::api {

class EventOutlet {
 public:
  explicit EventOutlet(std::function<void(const Event&)> on_event) : on_event_(std::move(on_event)) {}

  // Loop thread, or before it runs. The function may call it again. What it throws ends here.
  void Emit(const Event& event) noexcept;
  // No event is emitted any more. Waits for a call that is under way, at most until the deadline; false: the user's
  // function hangs, in its last call.
  bool Close(std::chrono::steady_clock::time_point deadline) noexcept;

 private:
  const std::function<void(const Event&)> on_event_;
  base::Mutex mutex_;  // never held while the function runs
  base::Condition quiet_;
  int calls_ STEPWATCH_GUARDED_BY(mutex_) = 0;  // under way
  bool closed_ STEPWATCH_GUARDED_BY(mutex_) = false;
};

}  // namespace stepwatch::api
