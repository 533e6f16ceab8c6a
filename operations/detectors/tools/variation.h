// Usual variation of a number: excursions from which it has returned before are not raised again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepwatch::operations {

// Rises of a level above its lowest that ended by themselves. Noise that is correlated from step to step moves the
// level of a few samples as far as it moves a sample, so only the level itself shows how far it moves.
class Excursions {
 public:
  // Adds a level after this many more samples. Returns the lowest so far.
  double Add(double level, size_t samples);
  // A raised fault that is over becomes usual from the height at which it was raised.
  void AddOver(double peak);
  double lowest() const { return lowest_; }
  // The distance above the lowest at which a level is significant.
  double News() const;
  // The largest distance above it from which a level has returned, among the last samples.
  double Usual() const;

 private:
  struct Over {
    int64_t sample = 0;
    double rise = 0;
    double peak = 0;
  };

  int64_t samples_ = 0;
  double lowest_ = 0;
  double peak_ = 0;  // since the level last returned
  std::vector<Over> over_;
};

// This many in a row are not chance if `over` of `all` were so and returned. 0: unknown.
int64_t InARowBeyondChance(int64_t over, int64_t all);

// Periods in which samples were above `high`, from below `low` and back.
struct Hiccups {
  int64_t count = 0;
  int64_t last = 0;  // samples of the unfinished period
  int64_t high = 0;  // samples that were above
  int64_t samples = 0;

  // Another one of the kind is usual, unless it lasts.
  bool IsUsual() const;
};

// Counts hiccups among samples that rise from `level` by up to this `height`.
Hiccups HiccupsIn(const std::vector<double>& samples, double level, double height);

}  // namespace stepwatch::operations
