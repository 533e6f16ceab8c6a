// Levels of a noisy number, and whether one has risen permanently: means over windows of several lengths, since the
// mean of many samples shows small changes that single samples do not.
#pragma once

#include <cstddef>
#include <vector>

#include "operations/detectors/tools/variation.h"
#include "operations/runs/sample_window.h"

namespace stepwatch::operations {

// The mean of the last `samples` ones, checked four times in as many samples.
class Level {
 public:
  explicit Level(size_t samples) : samples_(samples) {}

  size_t samples() const { return samples_; }
  double mean() const { return mean_; }
  double lowest() const { return excursions_.lowest(); }
  // Samples since its lowest value.
  size_t age() const { return age_; }
  // The distance above its lowest that is significant: see Levels.
  double News() const;
  // The largest distance above it from which the level has returned.
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
  double noise_error_ = 0;  // of the mean, if all noise were white
  double error_ = 0;        // of the mean, measured while the level was near its lowest
  double windows_ = 0;      // on which that is based
  Excursions excursions_;
  SampleWindow means_{64};
};

// A level has risen if it is above its lowest by as many standard errors as noise reaches once in ten million looks, by
// Student's t if few windows are known; and further than it has returned from before. The error of a mean is taken from
// the upward moves of means from one window to later ones, so that it holds for noise that is correlated, has two tops,
// or has outliers.
class Levels {
 public:
  Levels();

  // Noise is learnt, and levels that have returned are remembered, unless the rise is already known.
  void Add(double sample, bool is_risen);
  // The levels, that of the fewest samples first.
  const std::vector<Level>& all() const { return levels_; }
  // True if the level was checked with the last sample.
  bool IsDue(const Level& level) const;
  // A rise to this level is over.
  void AddOver(double peak);
  // Removes the newest samples: they turned out to belong to no level.
  void ForgetNewest(size_t count);
  const SampleWindow& samples() const { return samples_; }
  // Standard deviation of a sample, estimated from neighbours.
  double noise() const { return noise_; }

 private:
  double Noise() const;

  SampleWindow samples_{512};
  size_t count_ = 0;
  double noise_ = 0;
  std::vector<Level> levels_;
};

// The number of samples, the oldest first, from before they rose, at once or gradually: the number at which the squares
// of the remainder from a step, or a ramp, are least. 0: too few samples.
size_t OnsetIn(const std::vector<double>& samples);

}  // namespace stepwatch::operations
