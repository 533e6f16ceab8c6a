// Slopes and quantiles of samples. Pure; samples that are not finite are left out by the caller.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace stepwatch::operations {

struct Sampled {
  double x = 0;
  double y = 0;
};

// The Theil-Sen slope: the median of the slopes of all pairs, with the 95 % interval of Sen, which holds for
// independent errors. At most kFitPointsMax points, evenly chosen, are used.
struct Slope {
  double slope = 0;
  double low = 0;
  double high = 0;
  double intercept = 0;
  size_t points = 0;
};
inline constexpr size_t kFitPointsMax = 300;
// Nullopt: fewer than eight points, or all at one x.
std::optional<Slope> TheilSen(const std::vector<Sampled>& points);

// At most this many of them, evenly chosen, the first and the last among them.
std::vector<Sampled> Chosen(const std::vector<Sampled>& points, size_t points_max);

struct Weighted {
  double value = 0;
  double weight = 0;
};
// The smallest value at or below which at least this share of the weight is. Nullopt: no weight.
std::optional<double> Quantile(std::vector<Weighted> values, double share);

}  // namespace stepwatch::operations
