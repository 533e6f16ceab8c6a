#include "operations/detectors/life/suspects.h"

#include <algorithm>
#include <string>

namespace stepwatch::operations {
namespace {

constexpr double kBeatsMissed = 4;
constexpr double kBeatSecondsMissed = 3;
constexpr double kBeatsLate = 2.2;   // plus a second: two beats are missing by then, while those of peers have come
constexpr double kBeatsSoon = 1.3;   // likewise, one
constexpr double kBeatsTurn = 1.15;  // its turn was before this
constexpr double kSecondsLate = 1;
constexpr double kStepShare = 0.05;  // the step ends of ranks differ by this
constexpr double kUsePercentIdle = 10;
constexpr double kUsePercentBusy = 50;
constexpr double kUseSeconds = 120;  // older samples are ignored

// The present time between beats of a rank: ranks that beat at each step may beat less often where no step ends. A
// silent rank is no evidence of that, so this is the upper of the middle two.
double BeatSecondsNow(const RunState& run) {
  if (run.ranks().empty()) return run.pace().beat_seconds;
  std::vector<double> gaps;
  gaps.reserve(run.ranks().size());
  for (const auto& [number, rank] : run.ranks()) gaps.push_back(rank.report_gap);
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return std::max(run.pace().beat_seconds, *middle);
}

template <class IsOne>
std::vector<int64_t> RanksThat(const RunState& run, IsOne is_one) {
  std::vector<int64_t> ranks;
  for (const auto& [number, rank] : run.ranks())
    if (is_one(rank)) ranks.push_back(number);
  return ranks;
}

// Ranks whose beats stop while those of most others continue. If no rank reports, no rank is suspected: a peer is a
// witness only if it reported after the silent one's turn.
std::vector<int64_t> RanksFallenSilent(const RunState& run, double now) {
  const double beat = BeatSecondsNow(run);
  const double late = LateSeconds(run);
  // A rank that has missed its turn when another is late has fallen silent with it.
  const double soon = std::max(kBeatSecondsMissed, kBeatsSoon * beat + kSecondsLate);
  std::vector<int64_t> silent;
  bool is_one_late = false;
  double last_report = -RunState::kNever;  // of the silent ranks
  for (const auto& [number, rank] : run.ranks()) {
    const bool is_slow = rank.beat_seconds > 2 * beat;
    const double silence = now - rank.reported_at;
    if (silence <= (is_slow ? kBeatsMissed * rank.beat_seconds : soon)) continue;
    is_one_late = is_one_late || is_slow || silence > late;
    silent.push_back(number);
    last_report = std::max(last_report, rank.reported_at);
  }
  if (!is_one_late) return {};
  const size_t others = run.ranks().size() - silent.size();
  if (silent.empty() || 2 * silent.size() > run.ranks().size()) return {};
  const double turn = last_report + kBeatsTurn * beat + 0.5 * kSecondsLate;
  size_t witnesses = 0;
  for (const auto& [number, rank] : run.ranks()) {
    witnesses += rank.reported_at > turn ? 1 : 0;
    // A peer that has ended a step since then is not held up: beats of the silent ranks come late. Its own beat may
    // report the last step a whole turn after that, and a rank may have stopped that long before it.
    if (rank.reported_at > turn && rank.step_at > turn + beat) return {};
  }
  return 2 * witnesses >= others ? silent : std::vector<int64_t>();
}

// Ranks of the world that have never reported, if they are the minority.
std::vector<int64_t> RanksNeverHeard(const RunState& run) {
  std::vector<int64_t> ranks;
  if (run.world() > 2 * static_cast<int64_t>(run.ranks().size())) return ranks;
  for (int64_t rank = 0; rank < run.world(); ++rank)
    if (run.FindRank(rank) == nullptr) ranks.push_back(rank);
  return ranks;
}

// A rank that has not reported since its peers reported a step may have finished it as well, unless all ranks report
// each step as soon as it ends.
bool IsBehind(const RunState& run, const RankState& rank) {
  if (!rank.step) return true;
  if (!run.step() || *rank.step >= *run.step()) return false;
  return rank.reported_at > run.progress_at() + kStepShare * run.pace().StepSeconds() || run.pace().AreTogether();
}

// The last position of each rank. Ranks elsewhere than most hold those up.
std::vector<int64_t> RanksElsewhere(const RunState& run) {
  std::map<std::string, std::vector<int64_t>> by_module;
  size_t named = 0;
  for (const auto& [number, rank] : run.ranks()) {
    if (rank.module.empty()) continue;
    by_module[rank.module].push_back(number);
    ++named;
  }
  if (by_module.size() != 2 || named != run.ranks().size()) return {};
  const std::vector<int64_t>& first = by_module.begin()->second;
  const std::vector<int64_t>& second = by_module.rbegin()->second;
  const std::vector<int64_t>& fewest = first.size() < second.size() ? first : second;
  return 2 * fewest.size() < named ? fewest : std::vector<int64_t>();
}

// Ranks that evaluate or save while most others train, or wait to.
std::vector<int64_t> RanksInPhase(const RunState& run) {
  const RunPhase phase = run.phase();
  if (phase != RunPhase::kEval && phase != RunPhase::kCheckpoint) return {};
  return RanksThat(run, [&](const RankState& rank) { return rank.phase == phase; });
}

bool IsMinority(const std::vector<int64_t>& ranks, const RunState& run) {
  return !ranks.empty() && 2 * ranks.size() <= run.ranks().size();
}

// Names ranks that are elsewhere than most, or whose reports have been unchanged the longest.
void NameByTrace(const RunState& run, const GpuUse& gpus, double now, Suspects* suspects) {
  suspects->ranks = RanksElsewhere(run);
  suspects->witness = "module";
  if (!suspects->ranks.empty()) return;
  suspects->ranks = gpus.RanksApart(now);
  suspects->witness = "gpu_utilization";
  if (IsMinority(suspects->ranks, run)) return;
  suspects->ranks.clear();
  suspects->witness = "silence";
  const RankState* quietest = nullptr;
  double next = RunState::kNever;
  for (const auto& [number, rank] : run.ranks()) {
    if (quietest == nullptr || rank.changed_at < quietest->changed_at) {
      if (quietest != nullptr) next = std::min(next, quietest->changed_at);
      quietest = &rank;
    } else {
      next = std::min(next, rank.changed_at);
    }
  }
  const double margin = 2 * run.pace().beat_seconds + run.pace().StepSeconds() + 1;
  if (quietest != nullptr && next < RunState::kNever && next - quietest->changed_at > margin) {
    suspects->ranks = {quietest->rank};
    suspects->witness = "quietest";
  }
}

}  // namespace

bool IsSilent(const RunState& run, const RankState& rank, double now) {
  const double beat = std::max(run.pace().beat_seconds, rank.beat_seconds);
  return now - rank.reported_at > std::max(kBeatSecondsMissed, kBeatsMissed * beat);
}

double LateSeconds(const RunState& run) {
  return std::max(kBeatSecondsMissed, kBeatsLate * BeatSecondsNow(run) + kSecondsLate);
}

std::vector<int64_t> RanksWaiting(const RunState& run) {
  return RanksThat(run, [](const RankState& rank) { return rank.waits; });
}

std::vector<int64_t> GpuUse::RanksApart(double now) const {
  std::vector<int64_t> idle, busy;
  for (const auto& [rank, use] : use_) {
    if (now - use.at > kUseSeconds) continue;
    if (use.percent < kUsePercentIdle) idle.push_back(rank);
    if (use.percent >= kUsePercentBusy) busy.push_back(rank);
  }
  if (idle.empty() || busy.empty()) return {};
  return idle.size() <= busy.size() ? idle : busy;
}

Suspects SuspectsOf(const RunState& run, const GpuUse& gpus, double now) {
  Suspects suspects;
  const size_t count = run.ranks().size();
  suspects.ranks = RanksThat(run, [](const RankState& rank) { return rank.is_stopped(); });
  if (!suspects.ranks.empty()) {
    suspects.witness = "process_state";
    suspects.is_witnessed = true;
    return suspects;
  }
  suspects.ranks = RanksThat(run, [](const RankState& rank) { return !rank.waits; });
  if (!suspects.ranks.empty() && suspects.ranks.size() < count) {
    suspects.witness = "collective_wait";
    suspects.is_witnessed = true;
    return suspects;
  }
  if (run.pace().advances < kFirstAdvances) {
    suspects.ranks = RanksNeverHeard(run);
    suspects.witness = "never_heard";
    if (!suspects.ranks.empty()) return suspects;
  }
  suspects.ranks = RanksFallenSilent(run, now);
  const std::vector<int64_t> elsewhere = RanksElsewhere(run);
  const bool is_another = !elsewhere.empty() && std::none_of(elsewhere.begin(), elsewhere.end(), [&](int64_t rank) {
    return std::find(suspects.ranks.begin(), suspects.ranks.end(), rank) != suspects.ranks.end();
  });
  if (!suspects.ranks.empty() && !is_another) {
    suspects.witness = "silent_rank";
    suspects.is_odd = suspects.is_silent = true;
    return suspects;
  }
  const bool some_alive = std::any_of(run.ranks().begin(), run.ranks().end(),
                                      [&](const auto& rank) { return !IsSilent(run, rank.second, now); });
  suspects.ranks = RanksInPhase(run);
  suspects.witness = "phase";
  if (IsMinority(suspects.ranks, run)) return suspects;
  suspects.ranks = RanksThat(run, [&](const RankState& rank) { return IsBehind(run, rank); });
  if (IsMinority(suspects.ranks, run)) {
    suspects.witness = "rank_behind";
    suspects.is_odd = some_alive;
    return suspects;
  }
  NameByTrace(run, gpus, now, &suspects);
  if (run.world() == 1 && count == 1) suspects.ranks = {run.ranks().begin()->first};
  return suspects;
}

}  // namespace stepwatch::operations
