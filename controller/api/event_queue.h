// Bounded queue of events from other threads to the loop; putting an event does not wait for the user's function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/mutex.h"
#include "stepwatch/event.h"

namespace stepwatch::api {

class EventQueue {
 public:
  static constexpr size_t kEventsMax = 256;

  // Any thread. Returns true if the caller must wake the loop, once for all queued events. An event that finds no room
  // or memory is counted as dropped.
  bool Put(Event event) noexcept;
  // Loop thread. The last event reports how many were dropped, if any.
  std::vector<Event> Take();

 private:
  base::Mutex mutex_;
  std::vector<Event> events_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t left_out_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::api
