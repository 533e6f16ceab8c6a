#include "operations/runs/series.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

SeriesPoint PointOf(int64_t step, double t, double value) {
  SeriesPoint point;
  point.step_first = point.step_last = step;
  point.t = t;
  point.last = value;
  point.count = 1;
  if (std::isfinite(value))
    point.min = point.max = point.mean = value;
  else
    point.nonfinite = 1;
  return point;
}

}  // namespace

void Join(SeriesPoint* point, const SeriesPoint& later) {
  const auto finite = static_cast<double>(point->count - point->nonfinite);
  const auto more = static_cast<double>(later.count - later.nonfinite);
  if (more > 0) {
    point->min = finite > 0 ? std::min(point->min, later.min) : later.min;
    point->max = finite > 0 ? std::max(point->max, later.max) : later.max;
    point->mean += (later.mean - point->mean) * (more / (finite + more));
  }
  point->step_first = std::min(point->step_first, later.step_first);
  point->step_last = std::max(point->step_last, later.step_last);
  point->t = later.t;
  point->last = later.last;
  point->count += later.count;
  point->nonfinite += later.nonfinite;
}

void Series::Add(int64_t step, double t, double value) {
  const SeriesPoint point = PointOf(step, t, value);
  if (!points_.empty() && step < points_.back().step_first + steps_per_point_) return Join(&points_.back(), point);
  if (points_.size() >= points_max_) Halve();
  points_.push_back(point);
}

void Series::Halve() {
  steps_per_point_ *= 2;
  size_t kept = 0;
  for (size_t i = 0; i < points_.size(); i += 2) {
    points_[kept] = points_[i];
    if (i + 1 < points_.size()) Join(&points_[kept], points_[i + 1]);
    ++kept;
  }
  points_.resize(kept);
  points_.shrink_to_fit();
}

}  // namespace stepwatch::operations
