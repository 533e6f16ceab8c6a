// A semaphore whose Post does not lock, and whose deadlines use the monotonic clock, so that changes of the wall clock
// do not move them.
//
// POSIX rather than std::counting_semaphore: the one of libstdc++ 12 may poll with pauses of up to 64 ms instead of
// waiting when its thread is delayed for a moment before it sleeps, which would delay decisions that the step thread
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
  // Returns false if there was no post until the deadline.
  bool TakeUntil(std::chrono::steady_clock::time_point deadline) noexcept {
    // steady_clock equals CLOCK_MONOTONIC in all supported standard libraries.
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
