// Wakes the drain. Post does not lock, so that the step thread may call it.
#pragma once

#include <chrono>

#include "src/step/semaphore.h"

namespace stepwatch::step {

class WakeUp {
 public:
  void Post() noexcept { semaphore_.Post(); }
  // Returns after a Post or the timeout; consumes all posts so far.
  void Wait(std::chrono::milliseconds timeout) noexcept;

 private:
  Semaphore semaphore_;
};

}  // namespace stepwatch::step
