#include "controller/api/event_door.h"

namespace stepwatch::api {

void EventDoor::Tell(const Event& event) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    ++calls_;
  }
  try {
    on_event_(event);
  } catch (...) {  // there is nobody left to tell, and the loop goes on
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--calls_ == 0) quiet_.notify_all();
}

bool EventDoor::Close(std::chrono::steady_clock::time_point deadline) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  closed_ = true;
  return quiet_.wait_until(lock, deadline, [this] { return calls_ == 0; });
}

}  // namespace stepwatch::api
