// Levels of a noisy number, and whether one has risen for good: means over windows of several lengths, since the mean
// of many samples shows what no single one does.
#pragma once

#include <cstddef>
#include <vector>

#include "operations/detectors/tools/variation.h"
#include "operations/runs/sample_window.h"

namespace stepwatch::operations {

// The mean of the last `samples` ones, looked at four times in as many.
class Level {
 public:
  explicit Level(size_t samples) : samples_(samples) {}

  size_t samples() const { return samples_; }
  double mean() const { return mean_; }
  double lowest() const { return excursions_.lowest(); }
  // Samples since it was lowest.
  size_t age() const { return age_; }
  // How far above its lowest it must be to be news: see Levels.
  double News() const;
  // How far above it the level has come back from.
  double Usual() const { return excursions_.Usual(); }
  void Add(double mean, double noise);
  // Only follows the mean.
  void Follow(double mean);
  void AddOver(double peak) { excursions_.AddOver(peak); }

 private:
  void MeasureError(double least);

  size_t samples_;
  size_t age_ = 0;
  double mean_ = 0;
  double noise_error_ = 0;  // of the mean, were all noise white
  double error_ = 0;        // of the mean, as it was while the level was near its lowest
  double windows_ = 0;      // from which that is known
  Excursions excursions_;
  SampleWindow means_{64};
};

// A level has risen if it is above its lowest by as many standard errors as noise reaches once in ten million looks,
// by Student's t where few windows are known; and further than it came back from before. The error of a mean is taken
// from how far means have moved up from one window to later ones, so that it holds for noise that is correlated, has
// two tops, or has outliers.
class Levels {
 public:
  Levels();

  // Noise is learnt, and levels that are back are remembered, unless the rise is known already.
  void Add(double sample, bool is_risen);
  // The levels, the one of fewest samples first.
  const std::vector<Level>& all() const { return levels_; }
  // The level was looked at with the last sample.
  bool IsDue(const Level& level) const;
  // A rise to there is over.
  void AddOver(double peak);
  // Leaves the newest samples out: they were of no level, as it turned out.
  void ForgetNewest(size_t count);
  const SampleWindow& samples() const { return samples_; }
  // Standard deviation of a sample, as far as neighbours show it.
  double noise() const { return noise_; }

 private:
  double Noise() const;

  SampleWindow samples_{512};
  size_t count_ = 0;
  double noise_ = 0;
  std::vector<Level> levels_;
};

// How many of the samples, the oldest first, are from before they rose, at once or little by little: the number at
// which the squares of what a step, or a ramp, leaves over are least. 0: there are too few.
size_t OnsetIn(const std::vector<double>& samples);

}  // namespace stepwatch::operations
