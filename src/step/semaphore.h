// A semaphore that lets its poster go without a lock and goes by the monotonic clock, so that a step of the wall clock
// moves no deadline.
//
// POSIX rather than std::counting_semaphore: that of libstdc++ 12 may poll with pauses of up to 64 ms instead of
// waiting when its thread is held up for a moment before it sleeps, which would delay decisions that the step thread
// waits for.
#pragma once

#include <semaphore.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace stepwatch::step {

class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void Post() noexcept { sem_post(&semaphore_); }
  bool TryTake() noexcept { return sem_trywait(&semaphore_) == 0; }
  // False: there was no post until the deadline.
  bool TakeUntil(std::chrono::steady_clock::time_point deadline) noexcept {
    // steady_clock counts as CLOCK_MONOTONIC does, with all libraries that Stepwatch is built with.
    const auto since_boot = deadline.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot - seconds);
    const timespec until{static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
    int result = 0;
    do {
      result = sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until);
    } while (result != 0 && errno == EINTR);
    return result == 0;
  }

 private:
  sem_t semaphore_;
};

}  // namespace stepwatch::step
