#include "operations/detectors/variation.h"

#include <algorithm>

namespace stepwatch::operations {
namespace {

constexpr int64_t kRemembered = 2048;  // samples: a run that was lively once may be calm now
constexpr size_t kOverMax = 32;
constexpr double kCalmer = 2;  // noise is known to no better than that
constexpr double kUsualRises = 1.5;
constexpr double kUsualRisesFirst = 2;  // more, after the first few
// Noise that is correlated goes so far above its lowest level, of which little is known before it has come back from
// a few rises.
constexpr double kFirstNoises = 12;
constexpr int64_t kHiccupMax = 4;  // samples: what lasts longer is no hiccup
constexpr int64_t kHiccupsMin = 3;
constexpr double kHiccupHigh = 0.8;  // of the height at hand is as high,
constexpr double kHiccupLow = 0.4;   // and this is back

}  // namespace

double Excursions::Add(double level, double noise) {
  if (samples_++ == 0) lowest_ = peak_ = level;
  peak_ = std::max(peak_, level);
  const bool is_back = peak_ > lowest_ && level <= lowest_ + (peak_ - lowest_) / 2;
  if (is_back) AddOver(peak_);
  if (is_back || level <= lowest_) {
    peak_ = level;
    noise_ = noise;
  }
  lowest_ = std::min(lowest_, level);
  return lowest_;
}

void Excursions::BeginAt(double level) {
  if (peak_ > lowest_) AddOver(peak_);
  lowest_ = peak_ = level;
}

void Excursions::AddOver(double peak) {
  const Over over{samples_, peak - lowest_, peak, noise_};
  const double usual = Usual();
  if (over.rise > 2 * usual)
    alike_ = 1;
  else if (over.rise >= usual / 2)
    ++alike_;
  // A smaller one that is older will never again be the largest.
  std::erase_if(over_, [&](const Over& last) {
    return (last.rise <= over.rise && last.peak <= over.peak) || samples_ - last.sample > kRemembered;
  });
  const auto smaller = [](const Over& a, const Over& b) { return a.rise < b.rise; };
  if (over_.size() == kOverMax) over_.erase(std::min_element(over_.begin(), over_.end(), smaller));
  over_.push_back(over);
}

double Excursions::Usual() const {
  double usual = 0;
  for (const Over& over : over_) {
    if (samples_ - over.sample > kRemembered) continue;
    // A level that swings about a middle falls as far as it has risen; where learning left it behind, that is no swing.
    const double rise = std::min(over.peak - lowest_, 2 * over.rise);
    // Nor does it make a calm run lively that it was lively once.
    usual = std::max(usual, over.noise > 0 ? rise * std::min(1.0, kCalmer * noise_ / over.noise) : rise);
  }
  return usual;
}

double Excursions::News() const {
  const auto alike = static_cast<double>(alike_);
  const double usual_rises = kUsualRises + kUsualRisesFirst / (1 + alike);
  return std::max(usual_rises * Usual(), kFirstNoises * noise_ / (1 + alike / 2));
}

bool Hiccups::IsUsual() const {
  return count >= kHiccupsMin && last < 2 * longest + 1;
}

Hiccups HiccupsIn(const std::vector<double>& samples, double level, double height) {
  Hiccups hiccups;
  int64_t length = -1;  // -1: nothing was low before
  for (const double sample : samples) {
    if (sample <= level + kHiccupLow * (height - level)) {
      if (length > 0 && length <= kHiccupMax) ++hiccups.count;
      if (length <= 2 * kHiccupMax) hiccups.longest = std::max(hiccups.longest, length);
      length = 0;
    } else if (length > 0 || (length == 0 && sample >= level + kHiccupHigh * (height - level))) {
      ++length;
    }
  }
  hiccups.last = std::max<int64_t>(length, 0);
  return hiccups;
}

}  // namespace stepwatch::operations
