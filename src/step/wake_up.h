// Wakes the drain; sem_post is the one wake-up that takes no lock.
#pragma once

#include <semaphore.h>

#include <chrono>

namespace stepwatch::step {

class WakeUp {
 public:
  WakeUp() { sem_init(&semaphore_, 0, 0); }
  ~WakeUp() { sem_destroy(&semaphore_); }
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void Post() noexcept { sem_post(&semaphore_); }
  // Returns after a Post or the timeout, with all posts so far consumed.
  void Wait(std::chrono::milliseconds timeout);

 private:
  sem_t semaphore_;
};

}  // namespace stepwatch::step
