#include "operations/detectors/pace/gross_pace.h"

#include <algorithm>
#include <cmath>

#include "operations/detectors/tools/levels.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kBlocksJudged = 24;  // blocks judged together
constexpr size_t kBlocksLeftOut = 2;  // the slowest of them: a single one, perhaps over two blocks, is no trend
constexpr double kSecondsMin = 60;    // that they take
constexpr double kSlower = 1.22;      // than learnt
constexpr double kSlowerStill = 1.1;  // and this much, until it is over
constexpr double kPaceErrors = 5;     // standard errors of the mean of so many blocks
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
  std::vector<Block> blocks = recent_;
  const auto is_faster = [](const Block& a, const Block& b) { return a.seconds * b.work < b.seconds * a.work; };
  std::sort(blocks.begin(), blocks.end(), is_faster);
  blocks.resize(blocks.size() - std::min(blocks.size(), kBlocksLeftOut));
  double work = 0;
  double seconds = 0;
  for (const Block& block : blocks) {
    work += block.work;
    seconds += block.seconds;
  }
  return work > 0 ? seconds / work : 0;
}

void GrossPace::Forget() {
  recent_.clear();
  is_low_ = false;
}

double GrossPace::Rate() const {
  const double seconds = SecondsNow();
  return seconds > 0 ? 1 / seconds : 0;
}

int64_t GrossPace::SinceStep() const {
  std::vector<double> seconds;
  for (const Block& block : recent_) seconds.push_back(block.seconds / block.work);
  return recent_.empty() ? 0 : recent_[OnsetIn(seconds)].step;
}

void GrossPace::Add(const Block& block) {
  if (!(block.work > 0) || !(block.seconds > 0)) return;
  recent_.push_back(block);
  if (recent_.size() > kBlocksJudged) recent_.erase(recent_.begin());
  if (!is_frozen_) return Learn(block);
  if (recent_.size() < kBlocksJudged) return;
  double span = 0;
  for (const Block& one : recent_) span += one.seconds;
  const double error = std::sqrt(squares_ / (blocks_ - 1) / static_cast<double>(kBlocksJudged));
  const double seconds = SecondsNow();
  if (is_low_)
    is_low_ = seconds > kSlowerStill * seconds_mean_;
  else
    is_low_ = span >= kSecondsMin && seconds > kSlower * seconds_mean_ && seconds > seconds_mean_ + kPaceErrors * error;
}

}  // namespace stepwatch::operations
