// Events that other threads hand to the loop: bounded, and nobody waits for the user's function here.
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

  // Any thread. True: the loop is to be woken, which it is once for all that lies here. An event that finds no room, or
  // no memory, is counted.
  bool Put(Event event) noexcept;
  // Loop thread. The last event says how many were left out, if any were.
  std::vector<Event> Take();

 private:
  base::Mutex mutex_;
  std::vector<Event> events_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t left_out_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::api
