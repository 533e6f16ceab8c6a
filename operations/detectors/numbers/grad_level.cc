#include "operations/detectors/numbers/grad_level.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr double kNormMin = 1e-30;          // zero has no logarithm
constexpr double kGradDeviationMin = 0.05;  // of the logarithm
constexpr double kDeviationsAtOnce = 8;     // for one sample; two in a row may be closer
constexpr double kGradDeviations = 5;
constexpr double kFollow = 1.0 / 500;  // weight of a new sample in the slow level
constexpr int64_t kSkipped = 16;       // the first samples of a run fall fast
constexpr int64_t kLevelSamples = 64;  // whose median is the first level
constexpr int64_t kGradCalmSamples = 3;
constexpr double kOver = 2;         // below the limit by this an explosion is over: a slow rise crosses it often
constexpr double kNearLevel = 0.5;  // of the way up
constexpr int kDecimalsMax = 3;
constexpr double kAgain = 5;         // a collapse is over at this multiple of its limit
constexpr double kDeep = 1e-3;       // of the level: practically zero,
constexpr int64_t kDeepSamples = 4;  // of a norm that was never low before
constexpr int64_t kLongerThanEver = 2;

// Number of decimals in the text of a number; one more than the largest that matters, if it has more.
int DecimalsOf(double number) {
  for (int decimals = 0; decimals <= kDecimalsMax; ++decimals) {
    const double scaled = number * std::pow(10, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-9) return decimals;
  }
  return kDecimalsMax + 1;
}

}  // namespace

void GradLevelDetector::OnRestart() {
  *this = GradLevelDetector(settings_);
}

void GradLevelDetector::SlowLevel::Add(double log_sample, const SampleWindow& first) {
  ++samples;
  if (samples <= kSkipped + kLevelSamples)
    log = first.Median();
  else
    log += kFollow * (log_sample - log);
}

void GradLevelDetector::OnBeat(const RunState&, const BeatFacts& beat, Findings* findings) {
  if (beat.rewound) OnRestart();
  if (beat.late || !beat.grad_norm || !beat.grad_norm->fresh) return;
  if (!std::isfinite(beat.grad_norm->value) || beat.grad_norm->value < 0) return;
  rows_.Add(beat.step, beat.rank->rank, beat.grad_norm->value, beat.now);
  for (const StepRow& row : rows_.Take(beat.now)) Take(row, findings);
}

void GradLevelDetector::OnTick(const RunState&, double now, Findings* findings) {
  for (const StepRow& row : rows_.Take(now)) Take(row, findings);
}

void GradLevelDetector::Take(const StepRow& row, Findings* findings) {
  WatchCollapse(row, std::log(std::max(row.Min(), kNormMin)), findings);
  // A collapsed level is no reference for an explosion.
  if (below_ == 0) WatchExplosion(row, std::log(std::max(row.Max(), kNormMin)), findings);
}

// Deviation of the logarithms from a line through them: a slow rise has a spread of its own, which is not noise.
double GradLevelDetector::Noise() const {
  const size_t half = high_.size() / 2;
  const double slope = (MedianOf(high_.Last(half)) - MedianOf(high_.Last(half, half))) / static_cast<double>(half);
  std::vector<double> rest = high_.Last(2 * half);
  for (size_t i = 0; i < rest.size(); ++i) rest[i] -= slope * static_cast<double>(i);
  return std::max(DeviationOf(rest, MedianOf(rest)), kGradDeviationMin);
}

GradLevelDetector::Height GradLevelDetector::HeightOf(double log_norm) const {
  Height height;
  if (static_cast<int64_t>(high_.size()) < settings_.samples_min) return height;
  height.median = high_.Median();
  const bool is_level_known = high_level_.samples > kSkipped + kLevelSamples;
  height.level = is_level_known ? std::min(height.median, high_level_.log) : height.median;
  const double noise = Noise();
  const double over = log_norm - height.median;
  const double over_level = log_norm - height.level;
  const double ratio = is_exploding_ ? settings_.explosion_ratio / kOver : settings_.explosion_ratio;
  height.is_high = over > 0 && over_level >= std::log(ratio) && over_level >= kGradDeviations * noise &&
                   !HiccupsIn(norms_.Last(norms_.size()), height.median, log_norm).IsUsual();
  height.is_at_once = over >= kDeviationsAtOnce * noise;
  return height;
}

void GradLevelDetector::WatchExplosion(const StepRow& row, double log_norm, Findings* findings) {
  const Height height = HeightOf(log_norm);
  norms_.Add(log_norm);
  if (!height.is_high) return TakeUsual(row, log_norm, findings);
  calm_ = 0;
  ++above_;
  if (is_exploding_ || (!height.is_at_once && above_ < 2)) return;
  is_exploding_ = true;
  const double limit = height.level + std::log(settings_.explosion_ratio);
  Finding finding;
  finding.kind = IncidentKind::kGradExplosion;
  finding.ranks = RanksAbove(row, std::exp(limit));
  finding.since_step = LastUsualStep(height.level + kNearLevel * (log_norm - height.level));
  finding.evidence.Set("step", row.step);
  finding.evidence.Set("grad_norm", row.Max());
  finding.evidence.Set("grad_norm_median", std::exp(height.median));
  finding.evidence.Set("ratio", std::exp(log_norm - height.level));
  findings->Raise(std::move(finding));
}

void GradLevelDetector::TakeUsual(const StepRow& row, double log_norm, Findings* findings) {
  if (!is_exploding_ || ++calm_ >= kGradCalmSamples) {
    if (is_exploding_) findings->Clear(IncidentKind::kGradExplosion);
    is_exploding_ = false;
    above_ = calm_ = 0;
  }
  if (is_exploding_) return;
  high_.Add(log_norm);
  high_level_.Add(log_norm, high_);
  high_steps_.push_back(row.step);
  if (high_steps_.size() > 2 * high_.size()) high_steps_.erase(high_steps_.begin(), high_steps_.end() - high_.size());
}

// A slow rise was usual for a while after it had left its level.
int64_t GradLevelDetector::LastUsualStep(double log_limit) const {
  const size_t samples = high_.size();
  size_t newest = 0;
  while (newest + 1 < samples && high_.Newest(newest) > log_limit) ++newest;
  return high_steps_[high_steps_.size() - 1 - newest];
}

// A norm that is rounded to one or two decimals becomes zero just below a small level.
bool GradLevelDetector::IsRounding(double norm) const {
  if (decimals_ == 0 || decimals_ > kDecimalsMax) return false;
  return std::exp(low_level_.log) - norm <= 1.5 * std::pow(10, -decimals_);
}

// A norm that was low for a while before, and recovered, must be low for longer.
int64_t GradLevelDetector::CollapseSamples() const {
  if (longest_below_ == 0 && deep_ == below_) return std::min(kDeepSamples, settings_.collapse_samples);
  return std::max(settings_.collapse_samples, kLongerThanEver * longest_below_ + 1);
}

void GradLevelDetector::EndLow() {
  longest_below_ = std::max(longest_below_, below_);
  below_ = deep_ = 0;
}

void GradLevelDetector::WatchCollapse(const StepRow& row, double log_norm, Findings* findings) {
  decimals_ = std::max(decimals_, DecimalsOf(row.Min()));
  const double limit = low_level_.log + std::log(settings_.collapse_ratio);
  const bool is_known = low_level_.samples >= settings_.samples_min;
  if (is_collapsed_) {
    again_ = log_norm > limit + std::log(kAgain) ? again_ + 1 : 0;
    if (again_ < kGradCalmSamples) return;
    is_collapsed_ = false;
    below_ = deep_ = again_ = 0;
    findings->Clear(IncidentKind::kGradCollapse);
    return;
  }
  // A step that only accumulates gradients may report a norm of zero, which is not a level.
  const bool is_zero = row.Min() == 0 && !IsRounding(0);
  if (is_known ? log_norm >= limit || IsRounding(row.Min()) : !is_zero) {
    EndLow();
    last_good_step_ = row.step;
    if (is_known && log_norm < limit) return;
    low_.Add(log_norm);
    low_level_.Add(log_norm, low_);
    return;
  }
  deep_ += log_norm < low_level_.log + std::log(kDeep) ? 1 : 0;
  if (++below_ < CollapseSamples() || !is_known) return;
  is_collapsed_ = true;
  again_ = 0;
  Finding finding;
  finding.kind = IncidentKind::kGradCollapse;
  finding.ranks = RanksBelow(row, std::exp(limit));
  finding.since_step = last_good_step_;
  finding.evidence.Set("step", row.step);
  finding.evidence.Set("grad_norm", row.Min());
  finding.evidence.Set("grad_norm_level", std::exp(low_level_.log));
  finding.evidence.Set("samples", below_);
  findings->Raise(std::move(finding));
}

}  // namespace stepwatch::operations
