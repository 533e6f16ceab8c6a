#include "operations/daemon/clock_watch.h"

#include <cmath>
#include <ctime>

namespace stepwatch::operations {
namespace {

double Seconds(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

ClockLook LookAtClocks() {
  return {Seconds(CLOCK_REALTIME), Seconds(CLOCK_MONOTONIC)};
}

double ClockWatch::Look(const ClockLook& look) {
  if (!last_) {
    last_ = look;
    return 0;
  }
  const double passed = look.running - last_->running;
  const double step = look.wall - last_->wall - passed;
  last_ = look;
  double hidden = std::abs(step) > kStepSecondsMin ? step : 0;
  if (passed > kBlindSecondsMin) hidden += passed - 1;
  return hidden;
}

}  // namespace stepwatch::operations
