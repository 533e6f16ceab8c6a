// One number of a run by step, in bounded memory: when it is full, neighbours are merged, so that old and new points
// cover equally many steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepwatch::operations {

// The values of some steps in a row.
struct SeriesPoint {
  int64_t step_first = 0;
  int64_t step_last = 0;
  double t = 0;  // of the last value, in the clock of that moment
  double min = 0;
  double max = 0;
  double mean = 0;  // of the finite values; 0 without any
  double last = 0;
  int64_t count = 0;      // values
  int64_t nonfinite = 0;  // NaN or infinite values among them, which only `last` includes
};

// Merges a later point into this one.
void Join(SeriesPoint* point, const SeriesPoint& later);

class Series {
 public:
  explicit Series(size_t points_max = 2048) : points_max_(points_max) {}

  // Steps may be repeated, and out of order: such a value joins the last point.
  void Add(int64_t step, double t, double value);
  const std::vector<SeriesPoint>& points() const { return points_; }
  int64_t steps_per_point() const { return steps_per_point_; }
  // Halves the number of points, each then for twice as many steps.
  void Halve();

 private:
  size_t points_max_;
  int64_t steps_per_point_ = 1;
  std::vector<SeriesPoint> points_;
};

}  // namespace stepwatch::operations
