#include "operations/detectors/stuck.h"

#include <algorithm>

#include "operations/detectors/signals.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kLearntAdvances = 10;  // before a witness counts
constexpr int64_t kFirstAdvances = 3;    // likewise, where a step is known from before a restart
constexpr double kBeatsMissed = 4;
constexpr double kBeatSecondsMissed = 3;
constexpr double kBeatsLate = 1.3;   // and a second: a beat that has not come by then, while those of peers do
constexpr double kBeatsTurn = 1.15;  // its turn was before
constexpr double kSecondsLate = 1;
constexpr double kPhaseOnceFactor = 2;  // a length that was seen once says less than a habit
constexpr double kTickSeconds = 0.5;
constexpr double kStepShare = 0.05;  // by which ranks end a step apart
// What hiccups of runs with long steps take; a hang of theirs is still found within ten minutes.
constexpr double kHiccupSteps = 5;
constexpr double kHiccupSecondsMax = 540;
constexpr double kSignalSeconds = 600;  // in which a run that was asked to end saves itself
constexpr int64_t kRankStepsBehind = 20;
constexpr int64_t kBeatsInPhase = 3;
constexpr int64_t kFrozenBeats = 4;  // that tell of the same step

bool IsSilent(const RunState& run, const RankState& rank, double now) {
  const double beat = std::max(run.pace().beat_seconds, rank.beat_seconds);
  return now - rank.heard_at > std::max(kBeatSecondsMissed, kBeatsMissed * beat);
}

// Between beats of a rank, as things stand: ranks that beat at each step may beat less often where none ends. A rank
// that is silent says nothing of that, so it is the upper of the middle two.
double BeatSecondsNow(const RunState& run) {
  std::vector<double> gaps;
  gaps.reserve(run.ranks().size());
  for (const auto& [number, rank] : run.ranks()) gaps.push_back(rank.heard_gap);
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

// Ranks whose beats no longer come while those of most others do. That an observer hears nobody says nothing of any
// rank: a peer is a witness only if it was heard after the silent one's turn.
std::vector<int64_t> RanksFallenSilent(const RunState& run, double now) {
  const double beat = BeatSecondsNow(run);
  const double late = std::max(kBeatSecondsMissed, kBeatsLate * beat + kSecondsLate);
  std::vector<int64_t> silent;
  double last_heard = -RunState::kNever;  // of those that are silent
  for (const auto& [number, rank] : run.ranks()) {
    const double patience = rank.beat_seconds > 2 * beat ? kBeatsMissed * rank.beat_seconds : late;
    if (now - rank.heard_at <= patience) continue;
    silent.push_back(number);
    last_heard = std::max(last_heard, rank.heard_at);
  }
  const size_t others = run.ranks().size() - silent.size();
  if (silent.empty() || 2 * silent.size() > run.ranks().size()) return {};
  const double turn = last_heard + kBeatsTurn * beat + 0.5 * kSecondsLate;
  size_t witnesses = 0;
  for (const auto& [number, rank] : run.ranks()) witnesses += rank.heard_at > turn ? 1 : 0;
  return 2 * witnesses >= others ? silent : std::vector<int64_t>();
}

// Ranks that the world has and that have said nothing yet, if they are the fewer.
std::vector<int64_t> RanksNeverHeard(const RunState& run) {
  std::vector<int64_t> ranks;
  if (run.world() > 2 * static_cast<int64_t>(run.ranks().size())) return ranks;
  for (int64_t rank = 0; rank < run.world(); ++rank)
    if (run.FindRank(rank) == nullptr) ranks.push_back(rank);
  return ranks;
}

// A rank that said nothing since its peers told of a step may have finished it as well, unless all tell of each step as
// soon as it ends.
bool IsBehind(const RunState& run, const RankState& rank) {
  if (!rank.step) return true;
  if (!run.step() || *rank.step >= *run.step()) return false;
  return rank.heard_at > run.progress_at() + kStepShare * run.pace().StepSeconds() || run.pace().AreTogether();
}

bool IsMinority(const std::vector<int64_t>& ranks, const RunState& run) {
  return !ranks.empty() && 2 * ranks.size() <= run.ranks().size();
}

}  // namespace

void StuckDetector::OnRestart() {
  // A told one is over when the run trains again, which the desk sees.
  is_told_ = false;
  stuck_ranks_.clear();
  signal_at_ = -1;
}

void StuckDetector::OnEvent(const RunState&, const Line& line, double now, Findings*) {
  const auto* signal = std::get_if<SignalEvent>(&std::get<Event>(line.what));
  if (signal != nullptr && AsksToEnd(signal->number)) signal_at_ = now;
}

// Modules say where each rank was last: one that is elsewhere than most holds them up, or the one that has said nothing
// new for longest.
void StuckDetector::NameByTrace(const RunState& run, double, Suspects* suspects) const {
  std::map<std::string, std::vector<int64_t>> by_module;
  for (const auto& [number, rank] : run.ranks())
    if (!rank.module.empty()) by_module[rank.module].push_back(number);
  const std::vector<int64_t>* fewest = nullptr;
  size_t named = 0;
  for (const auto& [module, ranks] : by_module) {
    named += ranks.size();
    if (fewest == nullptr || ranks.size() < fewest->size()) fewest = &ranks;
  }
  if (by_module.size() == 2 && named == run.ranks().size() && 2 * fewest->size() < named) {
    suspects->ranks = *fewest;
    suspects->witness = "module";
    return;
  }
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

StuckDetector::Suspects StuckDetector::Suspect(const RunState& run, double now) const {
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
  if (!suspects.ranks.empty()) {
    suspects.witness = "silent_rank";
    suspects.is_odd = suspects.is_silent = true;
    return suspects;
  }
  const bool some_alive = std::any_of(run.ranks().begin(), run.ranks().end(),
                                      [&](const auto& rank) { return !IsSilent(run, rank.second, now); });
  suspects.ranks = RanksThat(run, [&](const RankState& rank) { return IsBehind(run, rank); });
  if (IsMinority(suspects.ranks, run)) {
    suspects.witness = "rank_behind";
    suspects.is_odd = some_alive;
    return suspects;
  }
  suspects.ranks.clear();
  NameByTrace(run, now, &suspects);
  if (run.world() == 1 && count == 1) suspects.ranks = {run.ranks().begin()->first};
  return suspects;
}

// A run that was restarted has shown how long it takes to begin; its first steps may compile anew.
double StuckDetector::StartAliveDeadline(const RunState& run) const {
  const double longest = run.longest(RunPhase::kInit);
  if (run.phase() != RunPhase::kInit || run.restarts() == 0 || longest <= 0) return settings_.start_alive_seconds;
  return std::min(settings_.start_alive_seconds, std::max(settings_.start_seconds, settings_.phase_factor * longest));
}

double StuckDetector::PhaseDeadline(const RunState& run, const Suspects& suspects, double now) const {
  const RunPhase phase = run.phase();
  const Pace& pace = run.pace();
  const bool is_first = pace.advances < kFirstAdvances;
  const bool all_silent = std::all_of(run.ranks().begin(), run.ranks().end(),
                                      [&](const auto& rank) { return IsSilent(run, rank.second, now); });
  if (phase == RunPhase::kInit || (phase == RunPhase::kTrain && is_first))
    return all_silent ? settings_.start_seconds : StartAliveDeadline(run);
  if (phase == RunPhase::kTrain) {
    const double first = pace.advances < kLearntAdvances ? pace.first_seconds : 0;
    return std::max({settings_.silence_seconds_min, std::min(kHiccupSteps * pace.StepSeconds(), kHiccupSecondsMax),
                     settings_.standstill_factor * std::max(pace.standstill_seconds, first)});
  }
  // A rank that went on telling of itself in this phase and then falls silent is as bad as one in training.
  const bool told = std::any_of(suspects.ranks.begin(), suspects.ranks.end(), [&](int64_t number) {
    const RankState* rank = run.FindRank(number);
    return rank != nullptr && rank->phase_beats >= kBeatsInPhase;
  });
  const bool have_fallen_silent =
      all_silent && std::all_of(run.ranks().begin(), run.ranks().end(), [&](const auto& rank) {
        return rank.second.phase_beats >= kBeatsInPhase && now - rank.second.heard_at > settings_.silence_seconds_min;
      });
  if ((suspects.is_odd && told) || have_fallen_silent) return settings_.phase_seconds_min;
  const double longest = run.longest(phase);
  if (longest <= 0) return all_silent ? settings_.phase_seconds : settings_.phase_alive_seconds;
  const double factor = settings_.phase_factor * (run.times(phase) == 1 ? kPhaseOnceFactor : 1);
  return std::max(all_silent ? settings_.phase_seconds_min : settings_.phase_alive_seconds_min, factor * longest);
}

double StuckDetector::Deadline(const RunState& run, const Suspects& suspects, double now) const {
  double deadline = PhaseDeadline(run, suspects, now);
  const Pace& pace = run.pace();
  const double step = std::max(pace.StepSeconds(), pace.advances < kLearntAdvances ? pace.step_seconds_before : 0);
  const bool is_known = pace.advances >= (pace.step_seconds_before > 0 ? kFirstAdvances : kLearntAdvances);
  const bool is_learnt = run.phase() == RunPhase::kTrain && is_known && step > 0;
  const double witnessed = settings_.witness_steps * step + settings_.witness_seconds - kTickSeconds;
  const double habit = pace.standstill_seconds_second;
  if (is_learnt && suspects.is_witnessed) deadline = std::min(deadline, witnessed);
  // Peers that tell of themselves and finish no step wait for the one that is silent.
  if (is_learnt && suspects.is_silent) deadline = std::min(deadline, std::max(witnessed, 1.5 * habit));
  if (is_learnt && suspects.is_odd)
    deadline = std::min(deadline, std::max({settings_.odd_rank_seconds, 5 * step + 10, 2 * habit}));
  if (signal_at_ >= 0 && run.progress_at() <= signal_at_ + step) deadline = std::max(deadline, kSignalSeconds);
  return deadline;
}

void StuckDetector::OnTick(const RunState& run, double now, Findings* findings) {
  if (run.ended() || run.ranks().empty() || run.is_paused(now)) return;
  if (is_told_) WatchRecovery(run, now, findings);
  WatchRanks(run, now, findings);
  const double standstill = now - run.progress_at();
  if (standstill < settings_.witness_seconds - kTickSeconds) return;
  // A process that is gone explains why its peers wait.
  for (const auto& [number, rank] : run.ranks())
    if (rank.gone) return;
  Suspects suspects = Suspect(run, now);
  const double deadline = Deadline(run, suspects, now);
  if (standstill < deadline) return;
  if (is_told_ && !IsNews(run, now, &suspects)) return;
  if (!is_told_) told_at_ = now;
  is_told_ = true;
  told_step_ = run.step();
  told_ranks_ = suspects.ranks;
  findings->Raise(Describe(run, suspects, deadline, now));
}

// Of a run that was told of: who holds it up, once that is known, and who else has fallen silent with the first, whose
// turns to beat are some time apart. Those that were told of stay in front.
bool StuckDetector::IsNews(const RunState& run, double now, Suspects* suspects) const {
  if (told_ranks_.empty()) return !suspects->ranks.empty();
  if (!suspects->is_silent || now - told_at_ > kBeatsLate * BeatSecondsNow(run) + kSecondsLate) return false;
  std::vector<int64_t> all = told_ranks_;
  for (const int64_t rank : suspects->ranks)
    if (std::find(told_ranks_.begin(), told_ranks_.end(), rank) == told_ranks_.end()) all.push_back(rank);
  const bool are_more = all.size() > told_ranks_.size() && suspects->ranks.size() == all.size();
  suspects->ranks = std::move(all);
  return are_more;
}

void StuckDetector::WatchRecovery(const RunState& run, double, Findings* findings) {
  if (run.step() == told_step_ && run.progress_at() <= told_at_) return;
  is_told_ = false;
  findings->Clear(IncidentKind::kStuck);
}

void StuckDetector::WatchRanks(const RunState& run, double now, Findings* findings) {
  for (auto it = stuck_ranks_.begin(); it != stuck_ranks_.end();) {
    const RankState* rank = run.FindRank(it->first);
    const bool is_over = rank == nullptr || rank->step.value_or(-1) != it->second;
    if (is_over) findings->Clear(IncidentKind::kStuck, "rank " + std::to_string(it->first));
    it = is_over ? stuck_ranks_.erase(it) : std::next(it);
  }
  if (now - run.progress_at() > settings_.witness_seconds + run.pace().StepSeconds()) {
    still_at_ = now;
    return;
  }
  if (run.phase() != RunPhase::kTrain || !run.step() || run.pace().advances < kLearntAdvances) return;
  const double silent_max =
      std::max(settings_.silence_seconds_min, settings_.standstill_factor * run.pace().standstill_seconds);
  const double alive_max = std::max(settings_.odd_rank_seconds, 2 * run.pace().standstill_seconds);
  for (const auto& [number, rank] : run.ranks()) {
    if (!rank.step || rank.gone || *run.step() - *rank.step < kRankStepsBehind || stuck_ranks_.count(number) > 0)
      continue;
    const bool is_silent = IsSilent(run, rank, now) && !rank.is_stopped();
    if (!is_silent && rank.step_beats < kFrozenBeats) continue;
    const double deadline =
        (is_silent ? silent_max : alive_max) + 3 * std::max(run.pace().beat_seconds, rank.beat_seconds);
    // While all stood still the rank was no worse than the others.
    const double since = std::max({rank.step_at, run.left_training_at(), still_at_});
    if (now - since < deadline || rank.phase != RunPhase::kTrain) continue;
    stuck_ranks_[number] = *rank.step;
    Suspects suspects;
    suspects.ranks = {number};
    suspects.witness = rank.is_stopped() ? "process_state" : "rank_behind";
    Finding finding = Describe(run, suspects, deadline, now);
    finding.key = "rank " + std::to_string(number);
    findings->Raise(std::move(finding));
  }
}

Finding StuckDetector::Describe(const RunState& run, const Suspects& suspects, double deadline, double now) const {
  Finding finding;
  finding.kind = IncidentKind::kStuck;
  finding.severity = Severity::kCritical;
  finding.ranks = suspects.ranks;
  finding.since_step = run.step();
  finding.evidence.SetText("phase", NameOf(run.phase()));
  finding.evidence.SetText("witness", suspects.witness);
  const RankState* culprit = suspects.ranks.empty() ? nullptr : run.FindRank(suspects.ranks.front());
  if (culprit != nullptr) {
    if (culprit->step) finding.since_step = culprit->step;
    if (!culprit->module.empty()) finding.evidence.Set("module", culprit->module);
    if (culprit->process_state != 0) finding.evidence.Set("process_state", std::string(1, culprit->process_state));
    finding.evidence.Set("silent_seconds", now - culprit->heard_at);
    finding.evidence.Set("standstill_seconds", now - culprit->step_at);
  } else {
    finding.evidence.Set("standstill_seconds", now - run.progress_at());
  }
  finding.evidence.Set("deadline_seconds", deadline);
  finding.evidence.Set("step_seconds", run.pace().StepSeconds());
  const std::vector<int64_t> waiting = RanksThat(run, [](const RankState& rank) { return rank.waits; });
  if (!waiting.empty()) finding.evidence.Set("waiting_ranks", waiting);
  return finding;
}

}  // namespace stepwatch::operations
