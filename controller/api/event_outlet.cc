#include "controller/api/event_outlet.h"

namespace stepwatch::api {

void EventOutlet::Emit(const Event& event) noexcept {
  {
    const base::MutexLock lock(&mutex_);
    if (closed_) return;
    ++calls_;
  }
  try {
    on_event_(event);
  } catch (...) {  // the error cannot be reported; the loop continues
  }
  const base::MutexLock lock(&mutex_);
  if (--calls_ == 0) quiet_.NotifyAll();
}

bool EventOutlet::Close(std::chrono::steady_clock::time_point deadline) noexcept {
  const base::MutexLock lock(&mutex_);
  closed_ = true;
  while (calls_ > 0 && quiet_.WaitUntil(&mutex_, deadline)) {
  }
  return calls_ == 0;
}

}  // namespace stepwatch::api
