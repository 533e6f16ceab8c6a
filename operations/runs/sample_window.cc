#include "operations/runs/sample_window.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr double kNormal = 1.4826;  // standard deviation of normal noise relative to its median distance

}  // namespace

double MedianOf(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

double DeviationOf(std::vector<double> samples, double center) {
  for (double& sample : samples) sample = std::abs(sample - center);
  return kNormal * MedianOf(std::move(samples));
}

void SampleWindow::Add(double sample) {
  if (samples_.size() < samples_max_) {
    samples_.push_back(sample);
    return;
  }
  samples_[next_] = sample;
  next_ = (next_ + 1) % samples_max_;
}

void SampleWindow::Clear() {
  samples_.clear();
  next_ = 0;
}

double SampleWindow::Newest(size_t k) const {
  const size_t size = samples_.size();
  return samples_[(next_ + 2 * size - 1 - k) % size];
}

std::vector<double> SampleWindow::Last(size_t count, size_t skip) const {
  const size_t there = samples_.size() > skip ? samples_.size() - skip : 0;
  std::vector<double> last(std::min(count, there));
  for (size_t i = 0; i < last.size(); ++i) last[last.size() - 1 - i] = Newest(skip + i);
  return last;
}

double SampleWindow::Median() const {
  return MedianOf(samples_);
}
double SampleWindow::Deviation(double center) const {
  return DeviationOf(samples_, center);
}

}  // namespace stepwatch::operations
