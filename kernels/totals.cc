#include "kernels/totals.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Nearest value of a binary format, ties to even, subnormals kept; beyond the largest: infinity.
double RoundToFormat(double value, int mantissa_bits, int exponent_min, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(value), exponent_min) - mantissa_bits);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

// The same for fp32, whose normal range the processor rounds to by itself: every small tensor runs this.
double RoundToSingle(double value) {
  if (value >= 0x1p-126 && value <= 0x1.fffffep127) return static_cast<double>(static_cast<float>(value));
  return RoundToFormat(value, 23, -126, 0x1.fffffep127);
}

double Tidy(double value) {
  return std::isnan(value) ? kNan : value + 0.0;
}

// Variance by sums: good to about 1e-16 * (1 + mean^2 / variance). A constant tensor gives exactly 0.
double StandardDeviation(double sum, double sum_of_squares, double n, const Statistics& extremes) {
  if (n < 2) return kNan;
  if (extremes.min == extremes.max && std::isfinite(extremes.min)) return 0;
  const double variance = (sum_of_squares - sum * (sum / n)) / (n - 1);
  return std::isfinite(variance) ? std::sqrt(std::max(variance, 0.0)) : kNan;
}

void SetExtremes(const Totals& totals, DType dtype, Statistics* statistics) {
  if (totals.nans > 0) return;
  if (IsIntegral(dtype)) {
    statistics->integral = true;
    statistics->min_int = totals.min_int;
    statistics->max_int = totals.max_int;
    statistics->min = static_cast<double>(totals.min_int);
    statistics->max = static_cast<double>(totals.max_int);
  } else {
    statistics->min = Tidy(totals.min);
    statistics->max = Tidy(totals.max);
  }
  statistics->abs_max = std::max(std::abs(statistics->min), std::abs(statistics->max));
}

}  // namespace

void JoinTotals(const Totals& chunk, Totals* all) {
  all->sum += chunk.sum;
  all->sum_of_squares += chunk.sum_of_squares;
  all->min = std::min(all->min, chunk.min);
  all->max = std::max(all->max, chunk.max);
  all->min_int = std::min(all->min_int, chunk.min_int);
  all->max_int = std::max(all->max_int, chunk.max_int);
  all->zeros += chunk.zeros;
  all->nans += chunk.nans;
  all->infs += chunk.infs;
}

double FoldLanes(const std::array<double, kLanes>& given) {
  std::array<double, kLanes> lanes = given;
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

double Threshold(DType dtype, const MeasureOptions& options) {
  if (options.eps_mode == EpsMode::kExact || options.eps == 0) return options.eps;
  const double single = RoundToSingle(options.eps);
  const auto rounded_or = [](double rounded, double smallest) { return rounded == 0 ? smallest : rounded; };
  switch (dtype) {
    case DType::kFloat32: return rounded_or(single, 0x1p-149);
    case DType::kFloat16: return rounded_or(RoundToFormat(single, 10, -14, 65504), 0x1p-24);
    case DType::kBFloat16: return rounded_or(RoundToFormat(single, 7, -126, 0x1.fep127), 0x1p-133);
    default: return options.eps;
  }
}

Statistics Finish(const Totals& totals, const Layout& layout, DType dtype) {
  Statistics statistics;
  statistics.numel = layout.count * layout.repeat;
  if (statistics.numel == 0) return statistics;
  const double repeat = static_cast<double>(layout.repeat);
  const double n = static_cast<double>(statistics.numel);
  const double sum = totals.sum * repeat;
  const double sum_of_squares = totals.sum_of_squares * repeat;
  SetExtremes(totals, dtype, &statistics);
  statistics.norm = Tidy(std::sqrt(sum_of_squares));
  statistics.mean = Tidy(sum / n);
  statistics.std_dev = StandardDeviation(sum, sum_of_squares, n, statistics);
  statistics.zeros = static_cast<double>(totals.zeros * layout.repeat) / n;
  statistics.nans = totals.nans * layout.repeat;
  statistics.infs = totals.infs * layout.repeat;
  return statistics;
}

double Agreement(int64_t sum, int64_t n) {
  return n == 0 ? 1 : (static_cast<double>(sum) / static_cast<double>(n) + 1) / 2;
}

}  // namespace stepwatch::kernels
