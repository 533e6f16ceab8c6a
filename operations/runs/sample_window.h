// The last samples of a number, with their median and spread.
#pragma once

#include <cstddef>
#include <vector>

namespace stepwatch::operations {

class SampleWindow {
 public:
  explicit SampleWindow(size_t samples_max) : samples_max_(samples_max) {}

  void Add(double sample);
  void Clear();
  size_t size() const { return samples_.size(); }
  bool is_full() const { return samples_.size() == samples_max_; }
  // The k-th newest, counted from 0.
  double Newest(size_t k) const;
  // The newest `count` of those that are older than the newest `skip`, the oldest first; fewer if there are no more.
  std::vector<double> Last(size_t count, size_t skip = 0) const;
  double Median() const;
  // The median distance from `center`, scaled so that it is the standard deviation of normal noise.
  double Deviation(double center) const;

 private:
  size_t samples_max_;
  size_t next_ = 0;  // position of the oldest, once all places are used
  std::vector<double> samples_;
};

// Samples in any order; 0 for an empty list.
double MedianOf(std::vector<double> samples);
double DeviationOf(std::vector<double> samples, double center);

}  // namespace stepwatch::operations
