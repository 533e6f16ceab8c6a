// Usual variation of a number: excursions that it has come back from before are not raised again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepwatch::operations {

// Rises of a level above its lowest that were over by themselves. Noise that is correlated from step to step moves the
// level of a few samples as far as it moves a sample, so only the level itself shows how far it moves.
class Excursions {
 public:
  // A level after so many more samples. Gives back the lowest so far.
  double Add(double level, size_t samples);
  // A raised fault that is over becomes usual from the height at which it was raised.
  void AddOver(double peak);
  double lowest() const { return lowest_; }
  // How far above the lowest a level must be to be news.
  double News() const;
  // How far above it a level has been before that has come back, among the last samples.
  double Usual() const;

 private:
  struct Over {
    int64_t sample = 0;
    double rise = 0;
    double peak = 0;
  };

  int64_t samples_ = 0;
  double lowest_ = 0;
  double peak_ = 0;  // since the level was last back
  std::vector<Over> over_;
};

// So many in a row are no chance where `over` of `all` were so and came back. 0: nothing is known.
int64_t InARowBeyondChance(int64_t over, int64_t all);

// Times in which samples were above `high`, from below `low` and back.
struct Hiccups {
  int64_t count = 0;
  int64_t last = 0;  // samples of the one that is not over
  int64_t high = 0;  // samples that were above
  int64_t samples = 0;

  // Another one of the kind is usual, unless it lasts.
  bool IsUsual() const;
};

// Counts hiccups among samples that rise from `level` to as much as that `height`.
Hiccups HiccupsIn(const std::vector<double>& samples, double level, double height);

}  // namespace stepwatch::operations
