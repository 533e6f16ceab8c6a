#include "operations/detectors/pace/straggler.h"

#include <algorithm>
#include <cmath>

#include "operations/detectors/tools/levels.h"

namespace stepwatch::operations {
namespace {

constexpr double kRoundSecondsMin = 1;
constexpr int64_t kSkippedRounds = 2;
constexpr size_t kFirstRounds = 12;
constexpr size_t kFirstRoundsMin = 3;
constexpr double kNoiseMin = 0.02;
constexpr double kStragglerDeviations = 4;
constexpr double kUsualMin = 0.9;     // a rank that was faster than its peers may become as slow as they are
constexpr double kSlowMin = 1.2;      // of the peers, regardless of the usual ratio
constexpr double kSlowMiddle = 1.16;  // likewise, in the middle of these rounds:
constexpr size_t kFewRounds = 16;
constexpr size_t kManyRounds = 48;        // they refine the usual ratio: noise hides it in the first few
constexpr double kStragglerErrors = 5.5;  // standard errors of the middle
constexpr double kLagMedianError = 1.25;  // error of a median relative to that of a mean
constexpr double kFromStart = 1.5;        // of the peers: a rank that was never faster, if alone,
constexpr double kFromStartMany = 1.35;
constexpr size_t kManyRanks = 8;  // among this many: stages of a pipeline differ, and are fewer
constexpr double kCalm = 1.12;    // of the usual ratio
constexpr int64_t kCalmRounds = 6;
constexpr int64_t kCalmRoundsMax = 96;
constexpr int64_t kMoreCalm = 4;  // times as many, if it has returned within the most of them
constexpr double kGroupSeconds = 60;
constexpr size_t kSampledMax = 16;      // steps of a round
constexpr double kLongStep = 2.5;       // times the peers' time,
constexpr double kLongerThanUsual = 2;  // and times the present usual step
constexpr size_t kStepsMax = 64;        // times are kept of this many steps and ranks: more would add little
constexpr size_t kRanksMin = 3;         // their middle is that of the step
constexpr size_t kFewPeers = 16;        // up to this number a rank is not its own peer

// The time of the other ranks.
double PeersOf(size_t self, const std::vector<double>& means, double median) {
  if (means.size() > kFewPeers) return median;
  std::vector<double> others;
  for (size_t i = 0; i < means.size(); ++i)
    if (i != self) others.push_back(means[i]);
  return MedianOf(std::move(others));
}

}  // namespace

void StragglerDetector::OnRestart() {
  *this = StragglerDetector(settings_);
}

void StragglerDetector::OnBeat(const RunState&, const BeatFacts& beat, Findings*) {
  if (beat.rewound) OnRestart();
  if (beat.late || !beat.step_seconds || !(beat.step_seconds->value > 0) || !std::isfinite(beat.step_seconds->value))
    return;
  if (!is_begun_) {
    round_at_ = beat.now;
    first_step_ = std::max<int64_t>(0, beat.step - 1);
  }
  is_begun_ = true;
  RankPace& pace = ranks_[beat.rank->rank];
  pace.seconds += beat.step_seconds->value;
  ++pace.steps;
  if (pace.sampled.size() < kSampledMax) pace.sampled.push_back(beat.step);
  if (beat.advanced > 0) NoteStep(beat.step, beat.step_seconds->value);
}

void StragglerDetector::NoteStep(int64_t step, double seconds) {
  if (steps_.size() >= kStepsMax && steps_.count(step) == 0) {
    if (step < steps_.begin()->first) return;
    steps_.erase(steps_.begin());
  }
  std::vector<float>& ranks = steps_[step];
  if (ranks.size() < kStepsMax) ranks.push_back(static_cast<float>(seconds));
}

void StragglerDetector::OnTick(const RunState& run, double now, Findings* findings) {
  if (!is_begun_) return;
  const double round = std::max({kRoundSecondsMin, run.pace().beat_seconds, 1.01 * run.pace().StepSeconds()});
  if (now - round_at_ < round) return;
  CloseRound(run, now, findings);
  round_at_ = now;
}

void StragglerDetector::CloseRound(const RunState& run, double now, Findings* findings) {
  std::vector<double> means;
  std::vector<RankPace*> paces;
  for (auto& [rank, pace] : ranks_) {
    if (pace.steps == 0) continue;
    pace.mean = pace.seconds / static_cast<double>(pace.steps);
    means.push_back(pace.mean);
    paces.push_back(&pace);
  }
  const double median = MedianOf(means);
  if (means.size() >= 2) LearnNoise();
  for (size_t i = 0; i < paces.size(); ++i) {
    const double peers = means.size() >= 2 ? PeersOf(i, means, median) : 0;
    if (peers > 0) Judge(run, means[i] / ExpectedOf(run, *paces[i], peers), paces[i]);
    paces[i]->seconds = 0;
    paces[i]->steps = 0;
    paces[i]->sampled.clear();
  }
  if (means.size() >= 2) Report(run, now, median, findings);
}

double StragglerDetector::FromStart() const {
  return ranks_.size() >= kManyRanks ? kFromStartMany : kFromStart;
}

// A step in which all ranks wait, for data or a checkpoint, makes none of them slow, though with sparse beats only some
// report that step. A host that is always slow slows the whole run.
double StragglerDetector::ExpectedOf(const RunState& run, const RankPace& pace, double peers) const {
  if (static_cast<int64_t>(pace.sampled.size()) < pace.steps) return peers;
  const double long_min = std::max(kLongStep * peers, kLongerThanUsual * run.pace().StepSeconds());
  double sum = 0;
  for (const int64_t step : pace.sampled) {
    const auto found = steps_.find(step);
    const bool is_known = found != steps_.end() && found->second.size() >= kRanksMin;
    const double middle = is_known ? MedianOf({found->second.begin(), found->second.end()}) : 0;
    sum += middle >= long_min ? middle : peers;
  }
  return sum / static_cast<double>(pace.steps);
}

// Ranks differ by chance in the same way. One rank alone, and a few rounds of it, are weak evidence of the amount.
void StragglerDetector::LearnNoise() {
  std::vector<double> noise;
  for (const auto& [rank, pace] : ranks_)
    if (pace.changes.size() > 0) noise.push_back(pace.noise);
  noise_ = MedianOf(std::move(noise));
}

double StragglerDetector::NoiseOf(const RankPace& pace) const {
  return std::max({kNoiseMin, noise_, pace.noise, pace.first_deviation});
}

void StragglerDetector::TakeRatio(double ratio, int64_t step, RankPace* pace) const {
  pace->ratios.Add(ratio);
  pace->ratio_steps.Add(static_cast<double>(step));
  if (pace->last_ratio > 0) {
    pace->changes.Add(ratio - pace->last_ratio);
    pace->noise = pace->changes.Deviation(0) / std::sqrt(2);
  }
  pace->last_ratio = ratio;
  // A rank that is slow from the start is raised, and does not become usual.
  if (pace->is_raised && pace->usual == 0) pace->usual = 1;
  LearnUsual(ratio, pace);
}

// It is refined by rounds that were followed by rounds without a sign of slowness.
void StragglerDetector::LearnUsual(double ratio, RankPace* pace) const {
  const bool is_first = pace->usual == 0;
  if (is_first && ratio >= FromStart()) return;
  if (!is_first) {
    if (pace->is_raised || pace->slow > 0 || pace->first.size() < kFirstRounds) return;
    if (pace->first.size() >= kManyRounds || pace->ratios.size() <= kFirstRounds + kFewRounds) return;
    const double error = ErrorOfMiddle(*pace, kFewRounds);
    const double suspicious = pace->usual * (1 + std::max(kSlowMiddle - 1, error) / 2);
    if (MedianOf(pace->ratios.Last(kFewRounds)) >= suspicious) return;
  }
  pace->first.push_back(is_first ? ratio : pace->ratios.Newest(kFewRounds));
  if (pace->first.size() < kFirstRounds) return;
  if (is_first) SplitFirst(pace);
  pace->usual = MedianOf(pace->first);
  pace->first_deviation = DeviationOf(pace->first, pace->usual);
}

// A rank that became slow among its first rounds was as fast as its peers before: the earlier rounds are usual.
void StragglerDetector::SplitFirst(RankPace* pace) const {
  const size_t rounds = pace->first.size();
  const size_t before = OnsetIn(pace->first);
  if (before < kFirstRoundsMin || rounds - before < kFirstRoundsMin) return;
  const auto change = pace->first.begin() + static_cast<std::ptrdiff_t>(before);
  const double highest = *std::max_element(pace->first.begin(), change);
  const double lowest = *std::min_element(change, pace->first.end());
  const double usual = MedianOf({pace->first.begin(), change});
  if (lowest <= highest || lowest < kSlowMin * usual) return;
  pace->first.resize(before);
  pace->good_step = static_cast<int64_t>(pace->ratio_steps.Newest(rounds - before));
  pace->slow = static_cast<int64_t>(rounds - before);
}

void StragglerDetector::Judge(const RunState& run, double ratio, RankPace* pace) const {
  if (++pace->rounds <= kSkippedRounds) return;
  TakeRatio(ratio, run.step().value_or(0), pace);
  const bool is_learning = pace->usual == 0;
  const double usual = is_learning ? 1 : std::max(pace->usual, kUsualMin);
  const double excess = std::max(settings_.straggler_ratio - 1, kStragglerDeviations * NoiseOf(*pace));
  const double limit = std::max(is_learning ? FromStart() : kSlowMin, usual * (1 + excess));
  const bool is_fast = ratio < (pace->is_raised && usual < kFromStart ? std::max(kCalm * usual, kCalm) : limit);
  pace->calm = is_fast ? pace->calm + 1 : 0;
  if (ratio >= limit)
    pace->slow += ratio >= usual + 2 * (limit - usual) ? 2 : 1;
  else if (pace->calm >= 2 || pace->slow < 4)
    pace->slow = 0;
  if (pace->slow == 0 && run.step() && !pace->is_raised) pace->good_step = *run.step();
}

bool StragglerDetector::IsSlow(const RankPace& pace) const {
  if (pace.slow >= settings_.straggler_rounds) return true;
  return pace.usual > 0 && (IsMiddleSlow(pace, kFewRounds) || IsMiddleSlow(pace, kManyRounds));
}

// The possible error of the middle of this many rounds from noise alone.
double StragglerDetector::ErrorOfMiddle(const RankPace& pace, size_t rounds) const {
  const double samples = 1 / static_cast<double>(rounds) + 1 / static_cast<double>(pace.first.size() + 1);
  return kStragglerErrors * kLagMedianError * std::sqrt(samples) * NoiseOf(pace);
}

// Noise may hide it in single rounds, not in the middle of many.
bool StragglerDetector::IsMiddleSlow(const RankPace& pace, size_t rounds) const {
  if (pace.ratios.size() < rounds) return false;
  const double error = ErrorOfMiddle(pace, rounds);
  return MedianOf(pace.ratios.Last(rounds)) >=
         std::max(kSlowMiddle, std::max(pace.usual, kUsualMin) * (1 + std::max(kSlowMiddle - 1, error)));
}

// Noise that hides the slowness in single rounds also hides which of them was the last good one.
int64_t StragglerDetector::GoodStep(const RankPace& pace) const {
  const bool is_by_middle = pace.usual > 0 && pace.slow < settings_.straggler_rounds;
  if (!is_by_middle || pace.ratios.size() < kFewRounds) return pace.good_step >= 0 ? pace.good_step : first_step_;
  const std::vector<double> ratios = pace.ratios.Last(pace.ratios.size());
  return static_cast<int64_t>(pace.ratio_steps.Newest(ratios.size() - std::max<size_t>(1, OnsetIn(ratios))));
}

// A rank that is slow at times has one incident, which lasts until the rank has been as usual for longer.
void StragglerDetector::BeginIncident(RankPace* pace) const {
  const bool is_back = pace->cleared_round >= 0 && pace->rounds - pace->cleared_round <= kCalmRoundsMax;
  pace->calm_rounds = is_back ? std::min(kMoreCalm * pace->calm_rounds, kCalmRoundsMax) : kCalmRounds;
  pace->is_raised = true;
  pace->calm = 0;
}

void StragglerDetector::Report(const RunState& run, double now, double median, Findings* findings) {
  std::vector<std::pair<double, int64_t>> slow;
  for (const auto& [rank, pace] : ranks_)
    if (IsSlow(pace)) slow.emplace_back(-pace.mean, rank);
  std::sort(slow.begin(), slow.end());
  const bool is_minority = 2 * slow.size() <= ranks_.size() && (slow.size() < ranks_.size());
  std::string changed;
  for (const auto& [mean, rank] : slow) {
    RankPace& pace = ranks_[rank];
    if (pace.is_raised || !is_minority) continue;
    if (group_.empty() || now - group_at_ > kGroupSeconds || groups_[group_].empty()) {
      group_ = "rank " + std::to_string(rank);
      group_at_ = now;
    }
    BeginIncident(&pace);
    pace.group = group_;
    groups_[group_].push_back(rank);
    changed = group_;
  }
  if (!changed.empty()) {
    const std::vector<int64_t>& ranks = groups_[changed];
    const RankPace& first = ranks_[ranks.front()];
    Finding finding;
    finding.kind = IncidentKind::kStraggler;
    finding.key = changed;
    finding.ranks = ranks;
    finding.since_step = GoodStep(first);
    finding.evidence.Set("step_seconds", first.mean);
    finding.evidence.Set("step_seconds_median", median);
    finding.evidence.Set("ratio", MedianOf(first.ratios.Last(first.slow > 1 ? first.slow / 2 : kFewRounds)));
    finding.evidence.Set("ratio_usual", first.usual == 0 ? 1.0 : first.usual);
    finding.evidence.Set("ranks_reporting", static_cast<int64_t>(ranks_.size()));
    if (run.step()) finding.evidence.Set("step", *run.step());
    findings->Raise(std::move(finding));
  }
  for (auto& [rank, pace] : ranks_) {
    if (!pace.is_raised || pace.calm < pace.calm_rounds) continue;
    pace.is_raised = false;
    pace.cleared_round = pace.rounds;
    pace.slow = 0;
    pace.ratios.Clear();
    pace.ratio_steps.Clear();
    std::vector<int64_t>& ranks = groups_[pace.group];
    ranks.erase(std::remove(ranks.begin(), ranks.end(), rank), ranks.end());
    if (!ranks.empty()) continue;
    findings->Clear(IncidentKind::kStraggler, pace.group);
    groups_.erase(pace.group);
  }
}

}  // namespace stepwatch::operations
