#include "operations/detectors/token_count.h"

#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr int64_t kRisingMin = 8;    // samples in a row: before, noise may rise as well
constexpr double kNearShare = 0.75;  // of those after them
constexpr double kTimeSmoothing = 0.1;
constexpr double kGrown = 1.5;             // times as many, and the time of a step says whether they cost any:
constexpr double kTimeOfTokens = 1.0 / 3;  // this power of their ratio, at least
constexpr double kOriginError = 0.1;       // of the steps counted, since steps have not all as many tokens

bool IsNear(double origin, double begin, double steps) {
  return std::abs(origin - begin) <= kOriginError * steps + 1;
}

}  // namespace

// A count rises by so much a step that it was nought when the run began, or when it was begun anew. Tokens of a step
// that rise because sequences grow come from a level of their own, and would have been nought long before; or a step
// takes longer the more there are.
void TokenCount::Add(int64_t rank, int64_t step, double tokens, double now) {
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_ || tokens == last_) return;
  rising_ = tokens > last_ ? rising_ + 1 : 0;
  last_ = tokens;
  TakeTime(step, now);
  if (rising_ <= 1) {
    first_step_ = step;
    first_ = tokens;
  }
  if (rising_ == kRisingMin) first_step_seconds_ = step_seconds_;
  if (rising_ < kRisingMin || step <= first_step_) return;
  costs_time_ = first_step_seconds_ > 0 && tokens > kGrown * first_ &&
                step_seconds_ / first_step_seconds_ > std::pow(tokens / first_, kTimeOfTokens);
  const auto steps = static_cast<double>(step - first_step_);
  const double origin = static_cast<double>(step) - tokens * steps / (tokens - first_);
  const bool is_near =
      IsNear(origin, 0, static_cast<double>(step)) || IsNear(origin, static_cast<double>(first_step_), steps);
  // Any curve that rises may seem to come from nought for a moment.
  near_ = is_near && rising_ > kRisingMin ? near_ + 1 : (is_near ? 1 : 0);
  is_count_ = is_count_ || (near_ >= kRisingMin &&
                            kNearShare * static_cast<double>(rising_ - kRisingMin) <= static_cast<double>(near_));
}

void TokenCount::TakeTime(int64_t step, double now) {
  if (at_ > 0 && step > step_) {
    const double seconds = (now - at_) / static_cast<double>(step - step_);
    step_seconds_ = step_seconds_ == 0 ? seconds : step_seconds_ + kTimeSmoothing * (seconds - step_seconds_);
  }
  at_ = now;
  step_ = step;
}

}  // namespace stepwatch::operations
