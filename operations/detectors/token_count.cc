#include "operations/detectors/token_count.h"

#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr int64_t kRisingMin = 8;  // samples in a row: before, noise may rise as well
constexpr double kTimeSmoothing = 0.1;
constexpr double kGrown = 1.5;             // times as many, and the time of a step says whether they cost any:
constexpr double kTimeOfTokens = 1.0 / 3;  // this power of their ratio, at least

}  // namespace

void TokenCount::Add(int64_t rank, int64_t step, double tokens, double now) {
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_ || step <= step_ || tokens == tokens_) return;
  const double seconds = (now - at_) / static_cast<double>(step - step_);
  if (at_ > 0) step_seconds_ += (step_seconds_ > 0 ? kTimeSmoothing : 1) * (seconds - step_seconds_);
  rising_ = tokens > tokens_ ? rising_ + 1 : 0;
  step_ = step;
  at_ = now;
  tokens_ = tokens;
  if (rising_ > kRisingMin && tokens < kGrown * tokens_before_) return;
  if (rising_ > kRisingMin && step_seconds_before_ > 0)
    is_count_ = step_seconds_ < std::pow(tokens / tokens_before_, kTimeOfTokens) * step_seconds_before_;
  tokens_before_ = tokens;
  step_seconds_before_ = step_seconds_;
}

}  // namespace stepwatch::operations
