#include "src/step/wake_up.h"

namespace stepwatch::step {

void WakeUp::Wait(std::chrono::milliseconds timeout) noexcept {
  if (!semaphore_.TakeUntil(std::chrono::steady_clock::now() + timeout)) return;
  while (semaphore_.TryTake()) {
  }
}

}  // namespace stepwatch::step
