#include "operations/detectors/numbers/loss_level.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stepwatch::operations {
namespace {

constexpr double kLossDeviationMin = 0.01;  // of the level: the least deviation assumed
constexpr double kAbrupt = 0.5;             // this part of a spike's height comes with its first sample
constexpr size_t kSettledSamples = 6;       // the last of these are no higher than the first
constexpr size_t kElevatedMax = 24;         // after these it is the usual level, unless it was found to be a spike
constexpr size_t kCalmSamples = 3;
constexpr double kNoisy = 0.1;  // of the level: a larger deviation is noisy
constexpr size_t kManySamples = 256;
constexpr double kBeyondNoise = 2;  // times the height of any of them
// A rise by this factor is a spike at any scale of the loss, if it is not small beside the first losses of the run.
constexpr double kManifold = 3;
constexpr double kLearningRateRise = 1.5;   // over its recent minimum, if it has been as high before
constexpr double kRatioMinRestarted = 1.6;  // after such a rise
constexpr double kBack = 0.1;               // above the level just before, as a part of it
constexpr size_t kNewestSamples = 16;       // of this level; a learning rate has just risen for as many
constexpr size_t kMoreSamples = 4;          // times the samples that raised a divergence, at most, show that it is over
constexpr size_t kRecentSamples = 8;        // of a loss that falls

double MeanOf(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

void LossLevelDetector::OnRestart() {
  const double first_level = first_level_;
  *this = LossLevelDetector(settings_);
  first_level_ = first_level;
}

void LossLevelDetector::OnBeat(const RunState&, const BeatFacts& beat, Findings* findings) {
  if (beat.rewound) OnRestart();
  if (!beat.late) TakeLearningRate(beat);
  if (beat.late || !beat.loss || !beat.loss->fresh || !std::isfinite(beat.loss->value)) return;
  rows_.Add(beat.step, beat.rank->rank, beat.loss->value, beat.now);
  for (const StepRow& row : rows_.Take(beat.now)) Take(row, findings);
}

void LossLevelDetector::OnTick(const RunState&, double now, Findings* findings) {
  for (const StepRow& row : rows_.Take(now)) Take(row, findings);
}

void LossLevelDetector::TakeLearningRate(const BeatFacts& beat) {
  if (!beat.lr || !(beat.lr->value > 0)) return;
  if (learning_rate_rank_ < 0) learning_rate_rank_ = beat.rank->rank;
  if (beat.rank->rank == learning_rate_rank_) learning_rates_.Add(beat.lr->value);
}

// The least rise above `level` that matters: `least`; less for a loss that was always small, if it is many times as
// high.
double LossLevelDetector::RiseMin(double least, double level, double height) const {
  if (first_level_ == 0 || height < kManifold * std::abs(level)) return least;
  return least * std::min(1.0, first_level_);
}

// It fell and rises again, as at a warm restart or in a cycle; in a warm-up it has not fallen before.
bool LossLevelDetector::HasRestartedLearningRate() const {
  const std::vector<double> rates = learning_rates_.Last(learning_rates_.size());
  if (rates.empty()) return false;
  const auto lowest = std::min_element(rates.begin(), rates.end());
  const double least = kLearningRateRise * *lowest;
  return rates.back() >= least && *std::max_element(rates.begin(), lowest + 1) >= least;
}

// A sudden rise of the loss comes with that of the rate.
bool LossLevelDetector::HasLearningRateJustRisen() const {
  return HasRestartedLearningRate() && learning_rates_.size() > kNewestSamples &&
         learning_rates_.Newest(0) > learning_rates_.Newest(kNewestSamples);
}

// Then the loss may rise, too.
double LossLevelDetector::RatioMin(double ratio) const {
  return HasRestartedLearningRate() ? std::max(ratio, kRatioMinRestarted) : ratio;
}

void LossLevelDetector::Take(const StepRow& row, Findings* findings) {
  const double loss = row.Max();
  // Ignores spikes when tracking the lowest level.
  if (is_spiking_) {
    WatchRecovery(loss, findings);
  } else {
    WatchSpike(row, loss, findings);
    if (!is_spiking_) WatchDivergence(row, findings);
  }
  losses_.Add(loss);
}

void LossLevelDetector::Accept(double loss, int64_t step) {
  if (usual_.size() >= kRecentSamples) misses_.Add(loss - MedianOf(usual_.Last(kRecentSamples)));
  usual_.Add(loss);
  last_good_step_ = step;
  elevated_.clear();
}

// For a falling loss the last few samples show its level, and their prediction errors show its noise: the window as a
// whole is above it, and its spread is that of the fall.
LossLevelDetector::Level LossLevelDetector::UsualLevel() const {
  const auto with = [](double median, double deviation) {
    return Level{median, std::max(deviation, kLossDeviationMin * std::abs(median))};
  };
  const double median = usual_.Median();
  const Level whole = with(median, usual_.Deviation(median));
  if (misses_.size() < kRecentSamples) return whole;
  const Level recent = with(MedianOf(usual_.Last(kRecentSamples)), misses_.Deviation(misses_.Median()));
  return recent.median < whole.median - recent.deviation ? recent : whole;
}

void LossLevelDetector::WatchSpike(const StepRow& row, double loss, Findings* findings) {
  loss_max_ = std::numeric_limits<double>::infinity();
  if (static_cast<int64_t>(usual_.size()) < settings_.samples_min) return Accept(loss, row.step);
  if (first_level_ == 0) first_level_ = std::abs(usual_.Median());
  const Level level = UsualLevel();
  const double rise = loss - level.median;
  const double ratio =
      HasLearningRateJustRisen() ? std::max(settings_.spike_ratio, kRatioMinRestarted) : settings_.spike_ratio;
  const double rise_min =
      std::max({settings_.spike_deviations * level.deviation, RiseMin(settings_.spike_rise_min, level.median, loss),
                (ratio - 1) * std::abs(level.median)});
  loss_max_ = level.median + RiseMinAtOnce(level, loss);
  if (rise < rise_min || HiccupsIn(losses_.Last(losses_.size()), level.median, loss).IsUsual())
    return Accept(loss, row.step);
  elevated_.push_back(row);
  JudgeElevated(row, level, findings);
  if (elevated_.size() < kElevatedMax || is_spiking_ || is_diverging_) return;
  const std::vector<StepRow> settled = std::exchange(elevated_, {});
  for (const StepRow& elevated : settled) Accept(elevated.Max(), elevated.step);
}

// The smallest rise of a single sample that is a spike.
double LossLevelDetector::RiseMinAtOnce(const Level& level, double loss) const {
  return std::max({(settings_.spike_ratio_at_once - 1) * std::abs(level.median),
                   1.5 * settings_.spike_deviations * level.deviation,
                   2 * RiseMin(settings_.spike_rise_min, level.median, loss)});
}

// If noise is large, its deviation is weak evidence of the height of the highest samples; many other samples are better
// evidence.
bool LossLevelDetector::IsBeyondNoise(const Level& level, double rise) const {
  if (level.deviation <= kNoisy * std::abs(level.median)) return true;
  const std::vector<double> losses = losses_.Last(losses_.size(), elevated_.size() - 1);
  return losses.size() >= kManySamples &&
         rise > kBeyondNoise * (*std::max_element(losses.begin(), losses.end()) - level.median);
}

void LossLevelDetector::JudgeElevated(const StepRow& row, const Level& level, Findings* findings) {
  const double loss = row.Max();
  const double rise = loss - level.median;
  const double before = MedianOf(usual_.Last(3));
  const bool is_strong = rise >= RiseMinAtOnce(level, loss) && IsBeyondNoise(level, rise);
  if (elevated_.size() == 1 && is_strong) return RaiseSpike(row, level, findings);
  std::vector<double> heights;
  for (const StepRow& elevated : elevated_) heights.push_back(elevated.Max() - level.median);
  const double abrupt_min = kAbrupt * MedianOf(heights);
  const bool is_abrupt = elevated_.front().Max() - before >= abrupt_min;
  const bool is_long = static_cast<int64_t>(elevated_.size()) >= settings_.spike_samples;
  const bool took_two = elevated_.size() > 1 && elevated_[1].Max() - before >= abrupt_min && HasSettled();
  if ((is_abrupt && (is_long || is_strong)) || took_two) RaiseSpike(row, level, findings);
}

// It rose over a few samples, and rises no further.
bool LossLevelDetector::HasSettled() const {
  const size_t size = elevated_.size();
  if (size < kSettledSamples) return false;
  const double first = std::max({elevated_[0].Max(), elevated_[1].Max(), elevated_[2].Max()});
  const double last = MedianOf({elevated_[size - 1].Max(), elevated_[size - 2].Max(), elevated_[size - 3].Max()});
  return last <= first;
}

void LossLevelDetector::RaiseSpike(const StepRow& row, const Level& level, Findings* findings) {
  is_spiking_ = true;
  since_spike_.Clear();
  const std::vector<double> newest = usual_.Last(kNewestSamples);
  if (levels_.noise() > kNoisy * std::abs(MeanOf(newest)))
    before_spike_ = {MeanOf(newest), levels_.noise() / std::sqrt(static_cast<double>(kNewestSamples)), true};
  else
    before_spike_ = {MedianOf(newest), DeviationOf(newest, MedianOf(newest)), false};
  const StepRow& first = elevated_.front();
  Finding finding;
  finding.kind = IncidentKind::kLossSpike;
  finding.ranks = RanksAbove(row, level.median + (settings_.spike_ratio - 1) * std::abs(level.median));
  finding.since_step = last_good_step_;
  finding.evidence.Set("step", first.step);
  finding.evidence.Set("loss", row.Max());
  finding.evidence.Set("loss_median", level.median);
  finding.evidence.Set("loss_deviation", level.deviation);
  if (level.median > 0) finding.evidence.Set("ratio", row.Max() / level.median);
  finding.evidence.Set("samples", static_cast<int64_t>(elevated_.size()));
  findings->Raise(std::move(finding));
  ForgetLevels(elevated_.size() - 1);
  elevated_.clear();
}

void LossLevelDetector::ForgetLevels(size_t count) {
  levels_.ForgetNewest(count);
  level_steps_.resize(level_steps_.size() - std::min(level_steps_.size(), count));
}

void LossLevelDetector::WatchRecovery(double loss, Findings* findings) {
  since_spike_.Add(loss);
  const std::vector<double> newest = since_spike_.Last(before_spike_.is_noisy ? kNewestSamples : kCalmSamples);
  if (since_spike_.size() < (before_spike_.is_noisy ? kNewestSamples : kCalmSamples)) return;
  const double now = before_spike_.is_noisy ? MeanOf(newest) : *std::max_element(newest.begin(), newest.end());
  if (now - before_spike_.level > std::max(3 * before_spike_.error, kBack * std::abs(before_spike_.level))) return;
  is_spiking_ = false;
  Evidence evidence;
  evidence.Set("loss", loss);
  findings->Clear(IncidentKind::kLossSpike, {}, std::move(evidence));
}

double LossLevelDetector::RiseMinOf(const operations::Level& level) const {
  return std::max((RatioMin(settings_.divergence_ratio) - 1) * std::abs(level.lowest()),
                  RiseMin(settings_.divergence_rise_min, level.lowest(), level.mean()));
}

void LossLevelDetector::WatchDivergence(const StepRow& row, Findings* findings) {
  levels_.Add(is_diverging_ ? row.Median() : std::min(row.Median(), loss_max_), is_diverging_);
  level_steps_.push_back(row.step);
  if (level_steps_.size() > 1024) level_steps_.erase(level_steps_.begin(), level_steps_.begin() + 512);
  if (is_diverging_) return WatchReturn(findings);
  // It may be a spike, which is known within some samples.
  if (!elevated_.empty() && elevated_.size() <= kSettledSamples) return;
  for (size_t i = 0; i < levels_.all().size(); ++i) {
    const operations::Level& level = levels_.all()[i];
    if (!levels_.IsDue(level) || level.mean() - level.lowest() < std::max(RiseMinOf(level), level.News())) continue;
    reported_level_ = i;
    return RaiseDivergence(row, level.lowest(), level.mean(), findings);
  }
}

// It is over if the level, and that of more samples, is among the earlier usual ones.
void LossLevelDetector::WatchReturn(Findings* findings) {
  const operations::Level& reported = levels_.all()[reported_level_];
  // It may have been raised by its last samples alone, which the level follows.
  if (++reported_samples_ < reported.samples() || !levels_.IsDue(reported)) return;
  for (size_t i = reported_level_; i < levels_.all().size(); ++i) {
    const operations::Level& level = levels_.all()[i];
    if (level.samples() > std::min(reported_samples_, kMoreSamples * reported.samples())) break;
    const double back = std::min(std::max(RiseMinOf(level) / 2, level.Usual()), (reported_top_ - level.lowest()) / 2);
    if (level.mean() - level.lowest() > back) return;
  }
  is_diverging_ = false;
  levels_.AddOver(reported_top_);
  findings->Clear(IncidentKind::kDivergence);
}

// The last sample before the change: the position at which a step, or a ramp, fits the samples best.
std::optional<int64_t> LossLevelDetector::LastStepBefore() const {
  const operations::Level& level = levels_.all()[reported_level_];
  const size_t count = std::min({levels_.samples().size(), level_steps_.size(), level.age() + 2 * level.samples()});
  const size_t before = OnsetIn(levels_.samples().Last(count));
  if (before == 0 || before > count) return std::nullopt;
  return level_steps_[level_steps_.size() - count + before - 1];
}

void LossLevelDetector::RaiseDivergence(const StepRow& row, double lowest, double top, Findings* findings) {
  is_diverging_ = true;
  reported_top_ = top;
  reported_samples_ = 0;
  Finding finding;
  finding.kind = IncidentKind::kDivergence;
  finding.since_step = LastStepBefore();
  finding.evidence.Set("step", row.step);
  finding.evidence.Set("loss", top);
  finding.evidence.Set("loss_lowest", lowest);
  if (lowest > 0) finding.evidence.Set("ratio", top / lowest);
  findings->Raise(std::move(finding));
}

}  // namespace stepwatch::operations
