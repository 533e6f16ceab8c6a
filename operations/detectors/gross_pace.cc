#include "operations/detectors/gross_pace.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr size_t kBlocks = 24;        // are judged together
constexpr size_t kWaitsLeftOut = 2;   // the longest of them: what came once or twice is no habit
constexpr double kSecondsMin = 60;    // that they take
constexpr double kSlower = 1.35;      // than learnt
constexpr double kSlowerStill = 1.1;  // and so much, until it is over
constexpr double kErrors = 5;         // standard errors of the mean of so many blocks
constexpr double kLearntBlocksMin = 12;

}  // namespace

void GrossPace::Freeze() {
  is_frozen_ = is_frozen_ || blocks_ >= kLearntBlocksMin;
}

void GrossPace::Learn(const Block& block) {
  const double seconds = block.seconds / block.work;
  const double before = seconds_mean_;
  blocks_ += 1;
  seconds_mean_ += (seconds - before) / blocks_;
  squares_ += (seconds - before) * (seconds - seconds_mean_);
}

double GrossPace::SecondsNow() const {
  std::vector<const Block*> by_wait;
  double work = 0;
  double seconds = 0;
  for (const Block& block : recent_) {
    by_wait.push_back(&block);
    work += block.work;
    seconds += block.seconds;
  }
  const size_t left_out = std::min(kWaitsLeftOut, by_wait.size());
  std::partial_sort(by_wait.begin(), by_wait.begin() + static_cast<std::ptrdiff_t>(left_out), by_wait.end(),
                    [](const Block* a, const Block* b) { return a->longest_seconds > b->longest_seconds; });
  for (size_t i = 0; i < left_out; ++i) {
    work -= by_wait[i]->longest_work;
    seconds -= by_wait[i]->longest_seconds;
  }
  return work > 0 ? seconds / work : 0;
}

double GrossPace::Rate() const {
  const double seconds = SecondsNow();
  return seconds > 0 ? 1 / seconds : 0;
}

int64_t GrossPace::SinceStep() const {
  for (const Block& block : recent_)
    if (block.seconds > kSlower * seconds_mean_ * block.work) return block.step;
  return recent_.empty() ? 0 : recent_.back().step;
}

void GrossPace::Add(const Block& block) {
  if (!(block.work > 0) || !(block.seconds > 0)) return;
  recent_.push_back(block);
  if (recent_.size() > kBlocks) recent_.pop_front();
  if (!is_frozen_) return Learn(block);
  if (recent_.size() < kBlocks) return;
  double span = 0;
  for (const Block& one : recent_) span += one.seconds;
  const double error = std::sqrt(squares_ / (blocks_ - 1) / static_cast<double>(kBlocks));
  const double seconds = SecondsNow();
  if (is_low_)
    is_low_ = seconds > kSlowerStill * seconds_mean_;
  else
    is_low_ = span >= kSecondsMin && seconds > kSlower * seconds_mean_ && seconds > seconds_mean_ + kErrors * error;
}

}  // namespace stepwatch::operations
