#include "operations/daemon/tick_timer.h"

#include <algorithm>
#include <chrono>

namespace stepwatch::operations {

void TickTimer::Start(std::function<void(int64_t number)> tick) {
  tick_ = std::move(tick);
  Await();
}

void TickTimer::Await() {
  constexpr std::chrono::milliseconds kPause{1000 / kTicksOfSecond};
  due_ = running_() + std::chrono::duration<double>(kPause).count();
  timer_.After(kPause, [this] {
    delay_ = std::max(0.0, running_() - due_);
    delay_max_ = ticks_ % kTicksOfMinute == 0 ? delay_ : std::max(delay_max_, delay_);
    Await();
    tick_(++ticks_);
  });
}

}  // namespace stepwatch::operations
