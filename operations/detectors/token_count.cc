#include "operations/detectors/token_count.h"

#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr int64_t kRisingMin = 8;     // samples in a row: before, noise may rise as well
constexpr double kNearShare = 0.75;   // of those after them
constexpr double kOriginError = 0.1;  // of the steps counted, since steps have not all as many tokens

bool IsNear(double origin, double begin, double steps) {
  return std::abs(origin - begin) <= kOriginError * steps + 1;
}

}  // namespace

// A count rises by so much a step that it was nought when the run began, or when it was begun anew. Tokens of a step
// that rise because sequences grow come from a level of their own, and would have been nought long before.
void TokenCount::Add(int64_t rank, int64_t step, double tokens) {
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_ || tokens == last_) return;
  rising_ = tokens > last_ ? rising_ + 1 : 0;
  last_ = tokens;
  if (rising_ <= 1) {
    first_step_ = step;
    first_ = tokens;
  }
  if (rising_ < kRisingMin || step <= first_step_) return;
  const auto steps = static_cast<double>(step - first_step_);
  const double origin = static_cast<double>(step) - tokens * steps / (tokens - first_);
  const bool is_near =
      IsNear(origin, 0, static_cast<double>(step)) || IsNear(origin, static_cast<double>(first_step_), steps);
  // Any curve that rises may seem to come from nought for a moment.
  near_ = is_near && rising_ > kRisingMin ? near_ + 1 : (is_near ? 1 : 0);
  is_count_ = is_count_ || (near_ >= kRisingMin &&
                            kNearShare * static_cast<double>(rising_ - kRisingMin) <= static_cast<double>(near_));
}

}  // namespace stepwatch::operations
