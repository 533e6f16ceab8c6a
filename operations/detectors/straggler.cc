#include "operations/detectors/straggler.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr double kRoundSecondsMin = 1;
constexpr int64_t kSkippedRounds = 2;
constexpr size_t kFirstRounds = 12;
constexpr double kDeviationMin = 0.02;
constexpr double kDeviations = 4;
constexpr double kSlowMin = 1.2;    // of the peers, whatever was usual
constexpr double kFromStart = 1.5;  // of the peers: a rank that was never faster, alone
constexpr double kVerySlow = 1.6;   // of the peers: half as many rounds do
constexpr double kCalm = 1.12;      // of what was usual
constexpr int64_t kCalmRounds = 6;
constexpr double kTogetherSeconds = 60;
constexpr size_t kFewPeers = 16;  // up to here a rank is not its own peer

// What the others take.
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
    pace.seconds = 0;
    pace.steps = 0;
    means.push_back(pace.mean);
    paces.push_back(&pace);
  }
  if (means.size() < 2) return;
  const double median = MedianOf(means);
  for (size_t i = 0; i < paces.size(); ++i) {
    const double peers = PeersOf(i, means, median);
    if (peers > 0) Judge(run, means[i] / peers, paces[i]);
  }
  Tell(run, now, median, findings);
}

void StragglerDetector::Judge(const RunState& run, double ratio, RankPace* pace) {
  if (++pace->rounds <= kSkippedRounds) return;
  pace->ratios.Add(ratio);
  const bool is_learning = pace->usual == 0;
  if (is_learning) {
    pace->first.push_back(ratio);
    if (pace->first.size() >= kFirstRounds) {
      pace->usual = MedianOf(pace->first);
      pace->deviation = std::max(DeviationOf(pace->first, pace->usual), kDeviationMin);
      pace->first = {};
    }
  }
  const double usual = is_learning ? 1 : std::max(pace->usual, 0.5);
  const double limit =
      is_learning
          ? kFromStart
          : std::max(kSlowMin, usual * (1 + std::max(settings_.straggler_ratio - 1, kDeviations * pace->deviation)));
  pace->very_slow = ratio >= std::max(kVerySlow, usual + 2 * (limit - usual)) ? pace->very_slow + 1 : 0;
  const bool is_fast = ratio < (pace->is_told && usual < kFromStart ? std::max(kCalm * usual, kCalm) : limit);
  pace->calm = is_fast ? pace->calm + 1 : 0;
  if (ratio >= limit)
    ++pace->slow;
  else if (pace->calm >= 2 || pace->slow < 4)
    pace->slow = 0;
  if (pace->slow == 0 && run.step() && !pace->is_told) pace->good_step = *run.step();
}

bool StragglerDetector::IsSlow(const RankPace& pace) const {
  if (pace.slow >= settings_.straggler_rounds || 2 * pace.very_slow >= settings_.straggler_rounds) return true;
  // Noise may hide it in single rounds, not in the middle of many.
  if (!pace.ratios.is_full() || pace.usual == 0) return false;
  const double error = kDeviations * pace.deviation / 2;
  return pace.ratios.Median() >= std::max(kSlowMin, pace.usual * (1 + std::max(kSlowMin - 1, error)));
}

void StragglerDetector::Tell(const RunState& run, double now, double median, Findings* findings) {
  std::vector<std::pair<double, int64_t>> slow;
  for (const auto& [rank, pace] : ranks_)
    if (IsSlow(pace)) slow.emplace_back(-pace.mean, rank);
  std::sort(slow.begin(), slow.end());
  const bool is_minority = 2 * slow.size() <= ranks_.size() && (slow.size() < ranks_.size());
  std::string changed;
  for (const auto& [mean, rank] : slow) {
    RankPace& pace = ranks_[rank];
    if (pace.is_told || !is_minority) continue;
    if (group_.empty() || now - group_at_ > kTogetherSeconds || groups_[group_].empty()) {
      group_ = "rank " + std::to_string(rank);
      group_at_ = now;
    }
    pace.is_told = true;
    pace.calm = 0;
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
    finding.since_step = first.good_step >= 0 ? first.good_step : first_step_;
    finding.evidence.Set("step_seconds", first.mean);
    finding.evidence.Set("step_seconds_median", median);
    finding.evidence.Set("ratio", first.ratios.Median());
    finding.evidence.Set("ratio_usual", first.usual == 0 ? 1.0 : first.usual);
    finding.evidence.Set("ranks_reporting", static_cast<int64_t>(ranks_.size()));
    if (run.step()) finding.evidence.Set("step", *run.step());
    findings->Raise(std::move(finding));
  }
  for (auto& [rank, pace] : ranks_) {
    if (!pace.is_told || pace.calm < kCalmRounds) continue;
    pace.is_told = false;
    pace.slow = pace.very_slow = 0;
    pace.ratios.Clear();
    std::vector<int64_t>& ranks = groups_[pace.group];
    ranks.erase(std::remove(ranks.begin(), ranks.end(), rank), ranks.end());
    if (!ranks.empty()) continue;
    findings->Clear(IncidentKind::kStraggler, pace.group);
    groups_.erase(pace.group);
  }
}

}  // namespace stepwatch::operations
