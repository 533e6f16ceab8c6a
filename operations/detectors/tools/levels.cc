#include "operations/detectors/tools/levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stepwatch::operations {
namespace {

constexpr size_t kWindows[] = {8, 16, 32, 64, 128};
constexpr size_t kLooks = 4;       // per window length
constexpr double kErrors = 5.2;    // of a mean: normal noise goes this far once in ten million looks
constexpr double kCalmErrors = 3;  // a level this close above its lowest is near it
constexpr size_t kNoiseSamples = 64;
constexpr size_t kTurnMax = 4;

}  // namespace

double Level::News() const {
  if (windows_ <= 0) return std::numeric_limits<double>::infinity();
  // Student's t of equally rare noise, if the error is known from this many windows.
  const double errors = std::sqrt(windows_ * std::expm1(kErrors * kErrors / windows_));
  return std::max(errors * std::max(error_, noise_error_), excursions_.News());
}

void Level::Add(double mean, double noise) {
  mean_ = mean;
  noise_error_ = noise / std::sqrt(static_cast<double>(samples_));
  means_.Add(mean);
  const double lowest = excursions_.Add(mean, samples_ / kLooks);
  age_ = mean <= lowest ? 0 : age_ + samples_ / kLooks;
  if (windows_ <= 0 || mean <= lowest + kCalmErrors * error_) MeasureError(noise_error_);
}

void Level::Follow(double mean) {
  mean_ = mean;
  age_ += samples_ / kLooks;
}

// Only upward moves count: a number that falls as it should moves down without noise.
void Level::MeasureError(double least) {
  error_ = least * least;
  const size_t size = means_.size();
  for (size_t lag = kLooks; lag + 2 * kLooks < size; lag *= 2) {
    double squares = 0;
    for (size_t k = 0; k + lag < size; ++k)
      squares += std::pow(std::max(0.0, means_.Newest(k) - means_.Newest(k + lag)), 2);
    error_ = std::max(error_, squares / static_cast<double>(size - lag));
  }
  error_ = std::sqrt(error_);
  windows_ = static_cast<double>(size) / kLooks - 1;
}

Levels::Levels() {
  for (const size_t samples : kWindows) levels_.emplace_back(samples);
}

bool Levels::IsDue(const Level& level) const {
  return samples_.size() >= kWindows[0] && count_ % (level.samples() / kLooks) == 0;
}

void Levels::Add(double sample, bool is_risen) {
  samples_.Add(sample);
  ++count_;
  noise_ = Noise();
  double sum = 0;
  size_t summed = 0;
  for (Level& level : levels_) {
    if (!IsDue(level)) continue;
    for (; summed < std::min(level.samples(), samples_.size()); ++summed) sum += samples_.Newest(summed);
    const double mean = sum / static_cast<double>(summed);
    if (is_risen)
      level.Follow(mean);
    else
      level.Add(mean, noise_);
  }
}

void Levels::AddOver(double peak) {
  for (Level& level : levels_) level.AddOver(peak);
}

void Levels::ForgetNewest(size_t count) {
  const std::vector<double> kept = samples_.Last(samples_.size(), count);
  samples_.Clear();
  for (const double sample : kept) samples_.Add(sample);
}

// The minimum over some distances between samples, because batches of a few kinds in turn differ from their neighbours
// by more than their mean does.
double Levels::Noise() const {
  const size_t samples = std::min(samples_.size(), kNoiseSamples);
  double least = std::numeric_limits<double>::infinity();
  for (size_t lag = 1; lag <= kTurnMax && lag < samples; ++lag) {
    double squares = 0;
    for (size_t i = 0; i + lag < samples; ++i) squares += std::pow(samples_.Newest(i) - samples_.Newest(i + lag), 2);
    least = std::min(least, squares / 2 / static_cast<double>(samples - lag));
  }
  return std::isfinite(least) ? std::sqrt(least) : 0;
}

size_t OnsetIn(const std::vector<double>& samples) {
  const auto size = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / size;
  double most = 0;
  size_t onset = 0;
  for (size_t i = 2; i < samples.size(); ++i)
    for (const bool is_ramp : {false, true}) {
      // The remainder is least if most of the squares about the mean is explained, by 1 after the onset or by the
      // distance from it: the square of its product with the samples, over its own squares about its mean.
      double sum = 0, squares = 0, product = 0;
      for (size_t k = i; k < samples.size(); ++k) {
        const double height = is_ramp ? static_cast<double>(k - i + 1) : 1;
        sum += height;
        squares += height * height;
        product += height * (samples[k] - mean);
      }
      const double taken = product > 0 ? product * product / (squares - sum * sum / size) : 0;
      if (taken > most) onset = i;
      most = std::max(most, taken);
    }
  return onset;
}

}  // namespace stepwatch::operations
