#include "controller/api/event_queue.h"

#include <new>
#include <string>
#include <utility>

namespace stepwatch::api {

bool EventQueue::Put(Event event) noexcept {
  const base::MutexLock lock(&mutex_);
  const bool wakes = events_.empty();
  if (events_.size() == kEventsMax) {
    ++left_out_;
    return false;
  }
  try {
    events_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    ++left_out_;
    return false;
  }
  return wakes;
}

std::vector<Event> EventQueue::Take() {
  Event last;
  const base::MutexLock lock(&mutex_);
  if (left_out_ > 0) {
    last.kind = EventKind::kDegraded;
    last.message = std::to_string(left_out_) + " events of the front end were dropped while the loop thread was busy";
    events_.push_back(std::move(last));
    left_out_ = 0;
  }
  return std::exchange(events_, {});
}

}  // namespace stepwatch::api
