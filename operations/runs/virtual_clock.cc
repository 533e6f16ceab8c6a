#include "operations/runs/virtual_clock.h"

#include <algorithm>

namespace stepwatch::operations {
namespace {

// Lines come slightly out of order, and differences of large times are rounded: a small decrease of time is as likely
// as a silence this many times as long.
constexpr double kFallWeight = 10;

double OddnessOf(double seconds) {
  return seconds >= 0 ? seconds : -kFallWeight * seconds;
}

}  // namespace

double VirtualClock::At(double t) const {
  return begun_ ? now_ + std::max(0.0, t - wall_) : std::max(t, earliest_);
}

void VirtualClock::Advance(double now) {
  if (now <= now_ || !begun_) return;
  wall_ += now - now_;
  now_ = now;
}

void VirtualClock::See(double t) {
  if (begun_) return Advance(At(t));
  begun_ = true;
  now_ = wall_ = std::max(t, earliest_);
}

void VirtualClock::Set(double t, double seconds) {
  if (!begun_) return See(t);
  const double if_new = t - wall_ - seconds;
  const double if_old = t - wall_;
  const bool is_new = OddnessOf(if_new) < OddnessOf(if_old);
  Advance(now_ + std::max(0.0, is_new ? if_new : if_old));
  wall_ += seconds;
}

}  // namespace stepwatch::operations
