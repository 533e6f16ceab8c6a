// Wakes the drain. To post takes no lock, so that the step thread may.
#pragma once

#include <chrono>

#include "src/step/semaphore.h"

namespace stepwatch::step {

class WakeUp {
 public:
  void Post() noexcept { semaphore_.Post(); }
  // Returns after a Post or the timeout, with all posts so far consumed.
  void Wait(std::chrono::milliseconds timeout) noexcept;

 private:
  Semaphore semaphore_;
};

}  // namespace stepwatch::step
