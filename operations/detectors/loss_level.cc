#include "operations/detectors/loss_level.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr double kLossDeviationMin = 0.01;  // of the level: noise is taken as at least that
constexpr double kAbrupt = 0.5;             // of the height of a spike comes with its first sample
constexpr double kGrowth = 1.03;            // a step: such losses, one after the other, rise
constexpr size_t kGrowingSamples = 4;
constexpr double kGrownRatio = 1.5;
constexpr size_t kSettledSamples = 6;  // of which the last are no higher than the first, but for so much growth
constexpr size_t kElevatedMax = 24;    // then it is the usual level, unless it was found to be a spike
constexpr int64_t kLossCalmSamples = 3;
constexpr double kNoisy = 0.1;  // of the level: with such a deviation
constexpr int64_t kCalmSamplesNoisy = 8;
// A rise to as much is one whatever the scale of the loss, if it is not small beside the first losses of the run.
constexpr double kManifold = 3;
constexpr double kLearningRateRise = 1.5;   // over its lowest of late, when it has been as high before
constexpr double kRatioMinRestarted = 1.6;  // then
constexpr double kBack = 0.1;               // above the level that there was just before, as a part of it
constexpr size_t kNewestSamples = 16;       // that make this level
constexpr size_t kRecentSamples = 8;        // of a loss that falls
constexpr size_t kLowestBlock = 8;
constexpr size_t kBlockSizes[] = {4, 8, 16, 32, 64};
constexpr double kLossMedianError = 1.25;  // standard error of a median over that of a mean

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
  ForgetRepeated(beat);
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

// Until a loss changes for the first time nobody can know that it is refreshed now and then, and repeats itself.
void LossLevelDetector::ForgetRepeated(const BeatFacts& beat) {
  const std::vector<double> losses = losses_.Last(losses_.size());
  const bool are_repeated = beat.loss->changed && beat.rank->loss.refresh_steps > 1 && losses.size() > 1 &&
                            static_cast<int64_t>(losses.size()) < settings_.samples_min &&
                            std::count(losses.begin(), losses.end(), losses[0]) == std::ssize(losses);
  if (!are_repeated) return;
  usual_.Clear();
  losses_.Clear();
  levels_.Clear();
  level_steps_.clear();
  excursions_ = Excursions();
}

// The least rise above `level` that matters: `least`, of a loss that was always small less, if it is many times as
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

// Then the loss may rise, too.
double LossLevelDetector::RatioMin(double ratio) const {
  return HasRestartedLearningRate() ? std::max(ratio, kRatioMinRestarted) : ratio;
}

void LossLevelDetector::Take(const StepRow& row, Findings* findings) {
  const double loss = row.Max();
  // What is so far above the usual is no level from which a loss could rise.
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

// Of a loss that falls, the last few samples tell where it is, and how well they told the next one how noisy it is: the
// window as a whole is above it, and its spread is that of the fall.
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
  if (static_cast<int64_t>(usual_.size()) < settings_.samples_min) return Accept(loss, row.step);
  if (first_level_ == 0) first_level_ = std::abs(usual_.Median());
  const Level level = UsualLevel();
  const double rise = loss - level.median;
  const double rise_min =
      std::max({settings_.spike_deviations * level.deviation, RiseMin(settings_.spike_rise_min, level.median, loss),
                (RatioMin(settings_.spike_ratio) - 1) * std::abs(level.median)});
  if (rise < rise_min || HiccupsIn(losses_.Last(losses_.size()), level.median, loss).IsUsual())
    return Accept(loss, row.step);
  elevated_.push_back(row);
  JudgeElevated(row, level, findings);
  if (elevated_.size() < kElevatedMax || is_spiking_ || is_diverging_) return;
  const std::vector<StepRow> settled = std::exchange(elevated_, {});
  for (const StepRow& elevated : settled) Accept(elevated.Max(), elevated.step);
}

void LossLevelDetector::JudgeElevated(const StepRow& row, const Level& level, Findings* findings) {
  const double loss = row.Max();
  const double rise = loss - level.median;
  const double before = MedianOf(usual_.Last(3));
  const bool is_strong = rise >= (settings_.spike_ratio_at_once - 1) * std::abs(level.median) &&
                         rise >= 1.5 * settings_.spike_deviations * level.deviation &&
                         rise >= 2 * RiseMin(settings_.spike_rise_min, level.median, loss);
  if (elevated_.size() == 1 && is_strong) return RaiseSpike(row, level, findings);
  bool grows = true;
  for (size_t i = elevated_.size() - std::min(elevated_.size(), kGrowingSamples); i < elevated_.size(); ++i) {
    const double last = i == 0 ? before : elevated_[i - 1].Max();
    grows = grows && elevated_[i].Max() > last + (kGrowth - 1) * std::abs(last);
  }
  if (grows) {
    const bool is_far = rise >= (kGrownRatio - 1) * std::abs(level.median);
    if (elevated_.size() >= kGrowingSamples && is_far && !is_diverging_) RaiseDivergence(row, row.Median(), findings);
    return;
  }
  std::vector<double> heights;
  for (const StepRow& elevated : elevated_) heights.push_back(elevated.Max() - level.median);
  const double abrupt_min = kAbrupt * MedianOf(heights);
  const bool is_abrupt = elevated_.front().Max() - before >= abrupt_min;
  const bool is_long = static_cast<int64_t>(elevated_.size()) >= settings_.spike_samples;
  const bool took_two = elevated_.size() > 1 && elevated_[1].Max() - before >= abrupt_min && HasSettled();
  if ((is_abrupt && (is_long || is_strong)) || took_two) RaiseSpike(row, level, findings);
}

// It rose over a few samples, and rises no more.
bool LossLevelDetector::HasSettled() const {
  const size_t size = elevated_.size();
  if (size < kSettledSamples) return false;
  const double first = std::max({elevated_[0].Max(), elevated_[1].Max(), elevated_[2].Max()});
  const double last = MedianOf({elevated_[size - 1].Max(), elevated_[size - 2].Max(), elevated_[size - 3].Max()});
  return last <= first + (kGrowth - 1) * std::abs(first);
}

void LossLevelDetector::RaiseSpike(const StepRow& row, const Level& level, Findings* findings) {
  is_spiking_ = true;
  const std::vector<double> newest = usual_.Last(kNewestSamples);
  spike_level_.median = MedianOf(newest);
  spike_level_.deviation = DeviationOf(newest, spike_level_.median);
  calm_ = 0;
  const StepRow& first = elevated_.front();
  Finding finding;
  finding.kind = IncidentKind::kLossSpike;
  finding.ranks = RanksAbove(row, level.median + (settings_.spike_ratio - 1) * std::abs(level.median));
  finding.since_step = last_good_step_;
  finding.evidence.Set("step", first.step);
  finding.evidence.Set("loss", row.Max());
  finding.evidence.Set("loss_median", level.median);
  finding.evidence.Set("loss_deviation", level.deviation);
  finding.evidence.Set("ratio", level.median != 0 ? row.Max() / level.median : 0.0);
  finding.evidence.Set("samples", static_cast<int64_t>(elevated_.size()));
  findings->Raise(std::move(finding));
  ForgetLevels(elevated_.size() - 1);
  elevated_.clear();
}

// The newest are of a spike, as it turned out, and of no level.
void LossLevelDetector::ForgetLevels(size_t count) {
  const std::vector<double> kept = levels_.Last(levels_.size(), count);
  levels_.Clear();
  for (const double level : kept) levels_.Add(level);
  level_steps_.resize(level_steps_.size() - std::min(level_steps_.size(), count));
}

void LossLevelDetector::WatchRecovery(double loss, Findings* findings) {
  const double back = std::max(3 * spike_level_.deviation, kBack * std::abs(spike_level_.median));
  calm_ = loss - spike_level_.median <= back ? calm_ + 1 : 0;
  const bool is_noisy = spike_level_.deviation > kNoisy * std::abs(spike_level_.median);
  if (calm_ < (is_noisy ? kCalmSamplesNoisy : kLossCalmSamples)) return;
  is_spiking_ = false;
  Evidence evidence;
  evidence.Set("loss", loss);
  findings->Clear(IncidentKind::kLossSpike, {}, std::move(evidence));
}

// Four blocks of samples of which each is above the one before, beyond noise.
bool LossLevelDetector::Rises(size_t block, double noise, double* top) const {
  if (levels_.size() < 4 * block) return false;
  double medians[4];
  for (size_t i = 0; i < 4; ++i) medians[i] = MedianOf(levels_.Last(block, (3 - i) * block));
  const double error = kLossMedianError * noise / std::sqrt(static_cast<double>(block));
  for (size_t i = 1; i < 4; ++i)
    if (medians[i] <= medians[i - 1]) return false;
  *top = medians[3];
  return medians[3] - medians[0] > 6 * error;
}

void LossLevelDetector::WatchDivergence(const StepRow& row, Findings* findings) {
  const double loss = row.Median();
  levels_.Add(loss);
  level_steps_.push_back(row.step);
  if (level_steps_.size() > 512) level_steps_.erase(level_steps_.begin(), level_steps_.begin() + 256);
  if (levels_.size() < 2) return;
  const double level = MedianOf(levels_.Last(kLowestBlock));
  if (is_diverging_) return WatchReturn(level, findings);
  const double noise = Noise();
  const double lowest = excursions_.Add(level, noise);
  if (levels_.size() == 2 * kLowestBlock) excursions_.BeginAt(level);
  const double rise_min = std::max({(RatioMin(settings_.divergence_ratio) - 1) * std::abs(lowest),
                                    RiseMin(settings_.divergence_rise_min, lowest, level), excursions_.News()});
  if (levels_.size() <= 2 * kLowestBlock || level - lowest < rise_min) return;
  double top = 0;
  for (const size_t block : kBlockSizes)
    if (Rises(block, noise, &top) && top - lowest >= rise_min) return RaiseDivergence(row, top, findings);
}

// It is over where the level is among those that were usual before.
void LossLevelDetector::WatchReturn(double level, Findings* findings) {
  // It may have been told by its last samples alone, which the level follows.
  if (++told_samples_ < static_cast<int64_t>(kLowestBlock)) return;
  const double lowest = excursions_.lowest();
  const double rise_min = std::max((settings_.divergence_ratio - 1) * std::abs(lowest),
                                   RiseMin(settings_.divergence_rise_min, lowest, told_top_));
  if (level - lowest > std::max(rise_min / 2, excursions_.Usual())) return;
  is_diverging_ = false;
  excursions_.AddOver(told_top_);
  findings->Clear(IncidentKind::kDivergence);
}

// Of a sample, from what there is between neighbours. Not robust on purpose: a loss of two tasks jumps now and then.
double LossLevelDetector::Noise() const {
  const size_t jumps = std::min<size_t>(levels_.size(), 64) - 1;
  double squares = 0;
  for (size_t i = 0; i < jumps; ++i) squares += std::pow(levels_.Newest(i) - levels_.Newest(i + 1), 2);
  return std::sqrt(squares / 2 / static_cast<double>(jumps));
}

void LossLevelDetector::RaiseDivergence(const StepRow& row, double top, Findings* findings) {
  is_diverging_ = true;
  told_top_ = top;
  told_samples_ = 0;
  const double lowest = levels_.size() < 2 * kLowestBlock ? usual_.Median() : excursions_.lowest();
  // The last step at which the loss was near its lowest level.
  std::optional<int64_t> since;
  for (size_t i = 0; i < levels_.size() && i < level_steps_.size() && !since; ++i)
    if (levels_.Newest(i) <= lowest + 0.15 * (top - lowest)) since = level_steps_[level_steps_.size() - 1 - i];
  Finding finding;
  finding.kind = IncidentKind::kDivergence;
  finding.severity = Severity::kCritical;
  finding.since_step = since;
  finding.evidence.Set("step", row.step);
  finding.evidence.Set("loss", top);
  finding.evidence.Set("loss_lowest", lowest);
  finding.evidence.Set("ratio", lowest != 0 ? top / lowest : 0.0);
  findings->Raise(std::move(finding));
}

}  // namespace stepwatch::operations
