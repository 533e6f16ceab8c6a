#include "front_ends/torch/optimizer_tap.h"

#include <utility>

#include "stepwatch/torch/optimizer_step.h"

namespace stepwatch {

// If `other` has no tap, this one keeps its own: the attached variable holds a new optimizer.
void OptimizerPoint::TakeTapOf(OptimizerPoint& other) noexcept {
  OptimizerTap* tap = other.tap_.exchange(nullptr, std::memory_order_acq_rel);
  if (tap == nullptr) return;
  tap->PointMoved(this);
  OptimizerTap* mine = tap_.exchange(tap, std::memory_order_acq_rel);
  if (mine != nullptr) mine->PointMoved(nullptr);
}

OptimizerPoint::OptimizerPoint(OptimizerPoint&& other) noexcept {
  TakeTapOf(other);
}

OptimizerPoint& OptimizerPoint::operator=(OptimizerPoint&& other) noexcept {
  if (this != &other) TakeTapOf(other);
  return *this;
}

OptimizerPoint::~OptimizerPoint() {
  OptimizerTap* tap = tap_.load(std::memory_order_acquire);
  if (tap != nullptr) tap->PointMoved(nullptr);
}

OptimizerTap::OptimizerTap(OptimizerPoint* point, OptimizerEvents events) : point_(point), events_(std::move(events)) {
  point_->tap_.store(this, std::memory_order_release);
}

void OptimizerTap::Detach() noexcept {
  if (point_ != nullptr) point_->tap_.store(nullptr, std::memory_order_release);
  point_ = nullptr;
}

namespace detail {

OptimizerStep::LossClosure OptimizerStep::Before(LossClosure closure) {
  if (!closure) {
    seen_ = true;
    tap_.events().before(optimizer_);
    return closure;
  }
  return [this, closure = std::move(closure)] {
    if (seen_) tap_.events().again();
    at::Tensor loss = closure();
    if (seen_)
      tap_.events().resumes();
    else
      tap_.events().before(optimizer_);
    seen_ = true;
    return loss;
  };
}

void OptimizerStep::After() noexcept {
  is_over_ = true;
  tap_.events().after();
}

OptimizerStep::~OptimizerStep() {
  if (seen_ && !is_over_) tap_.events().abandoned();
}

}  // namespace detail
}  // namespace stepwatch
