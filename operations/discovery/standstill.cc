#include "operations/discovery/standstill.h"

#include <algorithm>

namespace stepwatch::operations {
namespace {

constexpr size_t kStepsMin = 5;
constexpr double kTypicalTimes = 3;
constexpr double kSecondsMore = 1;
// Limit for a process whose pace is not known, for instance because it compiles.
constexpr double kUnknownPaceSeconds = 60;

}  // namespace

void Standstill::OnLook(const PulseLook& look, double now) {
  const bool is_training = look.phase == RunPhase::kTrain && look.step && !look.end;
  if (is_training != is_training_ || look.step != step_) {
    // The first step after another phase than training began in that phase.
    if (is_training && is_training_ && step_ && *look.step > *step_)
      seconds_[steps_++ % kStepsKept] = (now - stepped_at_) / static_cast<double>(*look.step - *step_);
    stepped_at_ = now;
    turns_.Reset();
    next_turn_ = 0;
  }
  is_training_ = is_training;
  step_ = look.step;
}

double Standstill::Typical() const {
  auto sorted = seconds_;
  const auto end = sorted.begin() + static_cast<ptrdiff_t>(std::min(steps_, kStepsKept));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

bool Standstill::Stands(double now) const {
  if (!is_training_) return false;
  const double limit = steps_ < kStepsMin ? kUnknownPaceSeconds : kTypicalTimes * Typical() + kSecondsMore;
  return now - stepped_at_ > limit;
}

bool Standstill::TakeTurn(double now) {
  if (!Stands(now) || now < next_turn_) return false;
  next_turn_ = now + turns_.Next();
  return true;
}

}  // namespace stepwatch::operations
