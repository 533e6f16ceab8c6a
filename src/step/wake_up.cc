#include "src/step/wake_up.h"

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace stepwatch::step {

void WakeUp::Wait(std::chrono::milliseconds timeout) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME,
                &until);  // sem_timedwait knows no other clock; a jump only makes one wait longer or shorter
  const int64_t nanoseconds = until.tv_nsec + (timeout.count() % 1000) * 1'000'000;
  until.tv_sec += static_cast<time_t>(timeout.count() / 1000 + nanoseconds / 1'000'000'000);
  until.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  while (sem_timedwait(&semaphore_, &until) != 0)
    if (errno != EINTR) return;
  while (sem_trywait(&semaphore_) == 0) {
  }
}

}  // namespace stepwatch::step
