#include "operations/performance/fit.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr size_t kPointsMin = 8;
constexpr double kNormal95 = 1.96;

double At(std::vector<double>* values, double place) {
  const double last = static_cast<double>(values->size()) - 1;
  const auto at = values->begin() + static_cast<std::ptrdiff_t>(std::clamp(place, 0.0, last));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

}  // namespace

std::vector<Sampled> Chosen(const std::vector<Sampled>& points, size_t points_max) {
  if (points.size() <= points_max || points_max < 2) return points;
  std::vector<Sampled> chosen;
  for (size_t i = 0; i < points_max; ++i) chosen.push_back(points[i * (points.size() - 1) / (points_max - 1)]);
  return chosen;
}

std::optional<Slope> TheilSen(const std::vector<Sampled>& all) {
  const std::vector<Sampled> points = Chosen(all, kFitPointsMax);
  if (points.size() < kPointsMin) return std::nullopt;
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = i + 1; j < points.size(); ++j)
      if (points[i].x != points[j].x) slopes.push_back((points[j].y - points[i].y) / (points[j].x - points[i].x));
  if (slopes.empty()) return std::nullopt;
  const auto n = static_cast<double>(points.size()), count = static_cast<double>(slopes.size());
  const double spread = kNormal95 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  Slope found;
  found.points = points.size();
  found.slope = At(&slopes, count / 2);
  found.low = At(&slopes, (count - spread) / 2);
  found.high = At(&slopes, (count + spread) / 2);
  std::vector<double> rests;
  for (const Sampled& each : points) rests.push_back(each.y - found.slope * each.x);
  found.intercept = At(&rests, n / 2);
  return found;
}

std::optional<double> Quantile(std::vector<Weighted> values, double share) {
  std::erase_if(values, [](const Weighted& each) { return !(each.weight > 0) || !std::isfinite(each.value); });
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end(), [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double total = 0, below = 0;
  for (const Weighted& each : values) total += each.weight;
  for (const Weighted& each : values) {
    below += each.weight;
    if (below >= share * total * (1 - 1e-12)) return each.value;
  }
  return values.back().value;
}

}  // namespace stepwatch::operations
