#include "operations/detectors/gross_pace.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr size_t kBlocksJudged = 24;  // are judged together
constexpr int kEpisodesLeftOut = 2;   // the slowest of them: what came once or twice is no habit
constexpr double kSecondsMin = 60;    // that they take
constexpr double kSlower = 1.35;      // than learnt
constexpr double kSlowerStill = 1.1;  // and so much, until it is over
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

// The blocks of the slowest episodes. One may begin in a block and go on in the next.
std::vector<bool> GrossPace::Episodes() const {
  const auto seconds_of = [&](size_t i) { return recent_[i].seconds / recent_[i].work; };
  std::vector<bool> are_in(recent_.size());
  for (int episode = 0; episode < kEpisodesLeftOut; ++episode) {
    size_t slowest = recent_.size();
    for (size_t i = 0; i < recent_.size(); ++i)
      if (!are_in[i] && (slowest == recent_.size() || seconds_of(i) > seconds_of(slowest))) slowest = i;
    if (slowest == recent_.size()) return are_in;
    are_in[slowest] = true;
    const bool has_before = slowest > 0 && !are_in[slowest - 1];
    const bool has_after = slowest + 1 < recent_.size() && !are_in[slowest + 1];
    if (has_after && (!has_before || seconds_of(slowest + 1) > seconds_of(slowest - 1)))
      are_in[slowest + 1] = true;
    else if (has_before)
      are_in[slowest - 1] = true;
  }
  return are_in;
}

double GrossPace::SecondsNow() const {
  const std::vector<bool> left_out = Episodes();
  double work = 0;
  double seconds = 0;
  for (size_t i = 0; i < recent_.size(); ++i) {
    if (left_out[i]) continue;
    work += recent_[i].work;
    seconds += recent_[i].seconds;
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
  for (const Block& block : recent_)
    if (block.seconds > kSlower * seconds_mean_ * block.work) return block.step;
  return recent_.empty() ? 0 : recent_.back().step;
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
