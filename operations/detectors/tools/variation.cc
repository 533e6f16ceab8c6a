#include "operations/detectors/tools/variation.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr int64_t kRemembered = 2048;  // samples: a run that was variable once may be calm now
constexpr size_t kOverMax = 32;
constexpr double kUsualRises = 1.5;
constexpr int64_t kHiccupsMin = 3;
constexpr int64_t kFewSamples = 64;  // among this many, a single one of this height is evidence of more
constexpr double kChance = 1e-5;     // of a present row, from the outcome of others
constexpr int64_t kInARowMax = 24;
constexpr double kHiccupHigh = 0.8;  // of the present height counts as the same height,
constexpr double kHiccupLow = 0.4;   // and this counts as returned

}  // namespace

double Excursions::Add(double level, size_t samples) {
  if (samples_ == 0) lowest_ = peak_ = level;
  samples_ += static_cast<int64_t>(samples);
  peak_ = std::max(peak_, level);
  const bool is_back = peak_ > lowest_ && level <= lowest_ + (peak_ - lowest_) / 2;
  if (is_back) AddOver(peak_);
  if (is_back || level <= lowest_) peak_ = level;
  lowest_ = std::min(lowest_, level);
  return lowest_;
}

void Excursions::AddOver(double peak) {
  const Over over{samples_, peak - lowest_, peak};
  // An older, smaller one can never again be the largest.
  std::erase_if(over_, [&](const Over& last) {
    return (last.rise <= over.rise && last.peak <= over.peak) || samples_ - last.sample > kRemembered;
  });
  const auto smaller = [](const Over& a, const Over& b) { return a.rise < b.rise; };
  if (over_.size() == kOverMax) over_.erase(std::min_element(over_.begin(), over_.end(), smaller));
  over_.push_back(over);
}

double Excursions::Usual() const {
  double usual = 0;
  for (const Over& over : over_)
    // A level that swings about a middle falls as far as it has risen, unless learning lowered it.
    if (samples_ - over.sample <= kRemembered) usual = std::max(usual, std::min(over.peak - lowest_, 2 * over.rise));
  return usual;
}

double Excursions::News() const {
  return kUsualRises * Usual();
}

int64_t InARowBeyondChance(int64_t over, int64_t all) {
  if (over == 0 || over + 1 >= all) return 0;
  const double share = static_cast<double>(over + 1) / static_cast<double>(all);  // few are weak evidence
  return std::min(kInARowMax, static_cast<int64_t>(std::ceil(std::log(kChance) / std::log(share))));
}

bool Hiccups::IsUsual() const {
  return count >= (samples < kFewSamples ? 1 : kHiccupsMin) && last < InARowBeyondChance(high, samples);
}

Hiccups HiccupsIn(const std::vector<double>& samples, double level, double height) {
  Hiccups hiccups;
  hiccups.samples = std::ssize(samples);
  bool was_low = false;
  for (const double sample : samples) {
    if (sample <= level + kHiccupLow * (height - level)) {
      hiccups.count += hiccups.last > 0 ? 1 : 0;
      hiccups.high += hiccups.last;
      hiccups.last = 0;
      was_low = true;
    } else if (hiccups.last > 0 || (was_low && sample >= level + kHiccupHigh * (height - level))) {
      ++hiccups.last;
    }
  }
  return hiccups;
}

}  // namespace stepwatch::operations
