#include "operations/performance/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace stepwatch::operations {
namespace {

constexpr size_t kRatesMin = 8;
constexpr size_t kFittedMax = 200;
// A worse fit recognises no schedule.
constexpr double kErrorMax = 0.03;
// The simpler one of two fits that are this close is used.
constexpr double kCloseEnough = 0.002;
// A rate that differs this little is at its peak.
constexpr double kPeakShare = 0.999;

struct Fit {
  ScheduleKind kind = ScheduleKind::kUnknown;
  std::function<double(double)> rate;
  double error = std::numeric_limits<double>::infinity();
};

// Least squares of y = a + b * f(x).
std::pair<double, double> LeastSquares(const std::vector<Sampled>& points, const std::function<double(double)>& f) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const Sampled& each : points) {
    const double x = f(each.x);
    n += 1;
    sx += x;
    sy += each.y;
    sxx += x * x;
    sxy += x * each.y;
  }
  const double spread = n * sxx - sx * sx;
  const double b = std::abs(spread) > 1e-300 ? (n * sxy - sx * sy) / spread : 0;
  return {(sy - b * sx) / n, b};
}

// The largest tenth of the differences is left out: deviations are reported, and do not move the fit's verdict.
double ErrorOf(const std::vector<Sampled>& points, const std::function<double(double)>& rate, double peak) {
  std::vector<double> squares;
  for (const Sampled& each : points) squares.push_back(std::pow((each.y - rate(each.x)) / peak, 2));
  std::sort(squares.begin(), squares.end());
  squares.resize(std::max<size_t>(1, squares.size() * 9 / 10));
  double sum = 0;
  for (const double each : squares) sum += each;
  return std::sqrt(sum / static_cast<double>(squares.size()));
}

// Fits, leaves out the points that differ most, and fits again.
Fit Fitted(ScheduleKind kind, const std::vector<Sampled>& points, double peak, const std::function<double(double)>& f) {
  std::vector<Sampled> used = points;
  Fit fit{kind, nullptr, 0};
  for (int round = 0; round < 2; ++round) {
    const auto [a, b] = LeastSquares(used, f);
    fit.rate = [a = a, b = b, f](double x) { return a + b * f(x); };
    if (round > 0) break;
    std::vector<std::pair<double, Sampled>> by_error;
    for (const Sampled& each : points) by_error.emplace_back(std::abs(each.y - fit.rate(each.x)), each);
    std::sort(by_error.begin(), by_error.end(), [](const auto& p, const auto& q) { return p.first < q.first; });
    by_error.resize(std::max<size_t>(2, by_error.size() * 9 / 10));
    used.clear();
    for (const auto& [error, each] : by_error) used.push_back(each);
  }
  fit.error = ErrorOf(points, fit.rate, peak);
  return fit;
}

}  // namespace

std::string_view NameOf(ScheduleKind kind) {
  constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "unknown"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Schedule> RecogniseSchedule(const std::vector<Sampled>& all) {
  std::vector<Sampled> rates;
  for (const Sampled& each : Chosen(all, 4 * kFitPointsMax))
    if (std::isfinite(each.y)) rates.push_back(each);
  if (rates.size() < kRatesMin) return std::nullopt;
  Schedule found;
  for (const Sampled& each : rates) found.peak = std::max(found.peak, each.y);
  if (!(found.peak > 0)) return std::nullopt;
  // Warm-up: the rate rises at every point until it is at its peak.
  size_t top = 0;
  while (top + 1 < rates.size() && rates[top].y < kPeakShare * found.peak && rates[top + 1].y > rates[top].y) ++top;
  const bool has_warm_up = top > 1 && rates[top].y >= kPeakShare * found.peak;
  if (has_warm_up) found.warm_up_until = rates[top].x;
  const std::vector<Sampled> rest(rates.begin() + static_cast<std::ptrdiff_t>(has_warm_up ? top : 0), rates.end());
  if (rest.size() < kRatesMin) return found;
  const double first = rest.front().x, span = std::max(1.0, rest.back().x - first);
  const std::vector<Sampled> fitted = Chosen(rest, kFittedMax);
  Fit best = Fitted(ScheduleKind::kConstant, fitted, found.peak, [](double) { return 0.0; });
  const auto consider = [&](const Fit& fit) {
    if (fit.error + kCloseEnough < best.error) best = fit;
  };
  consider(Fitted(ScheduleKind::kLinear, fitted, found.peak, [=](double x) { return (x - first) / span; }));
  // The window need not contain the begin or the end of the half wave.
  Fit cosine;
  for (double length = 1; length <= 8; length *= 1.05)
    for (const double before : {0.0, 0.1, 0.25, 0.5, 1.0, 2.0}) {
      if (length < 1 + before) continue;
      const Fit fit = Fitted(ScheduleKind::kCosine, fitted, found.peak, [=](double x) {
        return std::cos(std::numbers::pi * ((x - first) / span + before) / length);
      });
      if (fit.error < cosine.error) cosine = fit;
    }
  if (cosine.rate) consider(cosine);
  found.error = best.error;
  if (best.error > kErrorMax) return found;
  found.kind = best.kind;
  for (const Sampled& each : rest)
    if (std::abs(each.y - best.rate(each.x)) > kDeviationShare * found.peak) found.deviations.push_back(each);
  return found;
}

}  // namespace stepwatch::operations
