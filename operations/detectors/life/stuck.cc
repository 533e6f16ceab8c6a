#include "operations/detectors/life/stuck.h"

#include <algorithm>

#include "operations/detectors/life/signals.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kLearntAdvances = 10;  // before a witness counts
constexpr double kPhaseOnceFactor = 2;   // a length seen once is weaker evidence than a usual one
constexpr double kOddFactor = 1.5;       // of a standstill far beyond earlier ones, which may occur again
// The relative variation of a longer phase is smaller; a longer standstill that was unusual was most likely a fault.
constexpr double kLongSeconds = 900;
constexpr double kTickSeconds = 0.5;
constexpr double kStuckHiccupSteps = 5;  // steps that a hiccup takes in runs with long steps
// Ten minutes, less a tick and a beat: a hang of such runs is found by then; a restart or saving at the end may take
// this long.
constexpr double kLongestWaitSeconds = 590;
constexpr int64_t kRankStepsBehind = 20;
constexpr int64_t kBeatsInPhase = 3;
constexpr int64_t kFrozenBeats = 4;  // with the same step

}  // namespace

void StuckDetector::OnRestart() {
  // A raised finding is over when the run trains again, which the incident manager sees.
  is_raised_ = false;
  stuck_ranks_.clear();
  gpus_.Clear();
  signal_at_ = -1;
}

void StuckDetector::OnEvent(const RunState& run, const Line& line, double now, Findings*) {
  const auto* gpu = std::get_if<GpuEvent>(&std::get<Event>(line.what));
  const bool is_of_rank = gpu != nullptr && line.rank && run.FindRank(*line.rank) != nullptr;
  if (is_of_rank && gpu->field == "utilization") gpus_.Add(*line.rank, gpu->value, now);
  const auto* signal = std::get_if<SignalEvent>(&std::get<Event>(line.what));
  if (signal != nullptr && EndsProcess(signal->number)) signal_at_ = now;
}

// A restarted run has shown how long it takes to begin; its first steps may compile again.
double StuckDetector::StartDeadline(const RunState& run, bool all_silent) const {
  if (run.restarts() == 0) return all_silent ? settings_.start_seconds : settings_.start_alive_seconds;
  const double longest = run.longest(RunPhase::kInit);
  if (!all_silent && (run.phase() != RunPhase::kInit || longest <= 0)) return settings_.start_alive_seconds;
  return std::min(settings_.start_alive_seconds, std::max(kLongestWaitSeconds, settings_.phase_factor * longest));
}

double StuckDetector::PhaseDeadline(const RunState& run, const Suspects& suspects, double now) const {
  const RunPhase phase = run.phase();
  const Pace& pace = run.pace();
  const bool is_first = pace.advances < kFirstAdvances;
  const bool all_silent = std::all_of(run.ranks().begin(), run.ranks().end(),
                                      [&](const auto& rank) { return IsSilent(run, rank.second, now); });
  if (phase == RunPhase::kInit || (phase == RunPhase::kTrain && is_first)) return StartDeadline(run, all_silent);
  if (phase == RunPhase::kTrain) {
    const double first = pace.advances < kLearntAdvances ? pace.first_seconds : 0;
    return std::max({settings_.silence_seconds_min,
                     std::min(kStuckHiccupSteps * pace.StepSeconds(), kLongestWaitSeconds),
                     settings_.standstill_factor * std::max(pace.standstill_seconds, first),
                     std::min(kOddFactor * pace.standstill_seconds_odd, kLongSeconds)});
  }
  // A rank that reported in this phase and then falls silent is as bad as one in training.
  const bool has_reported = std::any_of(suspects.ranks.begin(), suspects.ranks.end(), [&](int64_t number) {
    const RankState* rank = run.FindRank(number);
    return rank != nullptr && rank->phase_beats >= kBeatsInPhase;
  });
  const bool have_fallen_silent =
      all_silent && std::all_of(run.ranks().begin(), run.ranks().end(), [&](const auto& rank) {
        return rank.second.phase_beats >= kBeatsInPhase &&
               now - rank.second.reported_at > settings_.silence_seconds_min;
      });
  if ((suspects.is_odd && has_reported) || have_fallen_silent) return settings_.phase_seconds_min;
  const double longest = run.longest(phase);
  if (longest <= 0) return all_silent ? settings_.phase_seconds : settings_.phase_alive_seconds;
  const double factor = settings_.phase_factor * (run.times(phase) == 1 ? kPhaseOnceFactor : 1);
  return std::max(all_silent ? settings_.phase_seconds_min : settings_.phase_alive_seconds_min,
                  std::min(factor * longest, settings_.standstill_factor * longest + kLongSeconds));
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
  // Peers that report and finish no step wait for the silent one.
  if (is_learnt && suspects.is_silent) deadline = std::min(deadline, std::max(witnessed, 1.5 * habit));
  if (is_learnt && suspects.is_odd)
    deadline = std::min(deadline, std::max({settings_.odd_rank_seconds, 5 * step + 10, 2 * habit}));
  if (signal_at_ >= 0 && run.progress_at() <= signal_at_ + step) deadline = std::max(deadline, kLongestWaitSeconds);
  return deadline;
}

// The time at which one of the suspects last ended a step: suspects with late beats may be behind, and still running.
double StuckDetector::LastStepOf(const Suspects& suspects, const RunState& run) const {
  double last = -RunState::kNever;
  for (const int64_t number : suspects.ranks)
    if (const RankState* rank = run.FindRank(number)) last = std::max(last, rank->step_at);
  return suspects.is_odd && !suspects.is_silent ? last : -RunState::kNever;
}

void StuckDetector::OnTick(const RunState& run, double now, Findings* findings) {
  // A run without a reported start consists only of samples of its hosts.
  const bool has_begun = !run.ranks().empty() || run.world() > 0 || run.restarts() > 0;
  if (run.ended() || !has_begun || run.is_paused(now)) return;
  if (is_raised_ && (run.step() != reported_step_ || run.progress_at() > reported_at_)) {
    is_raised_ = false;
    findings->Clear(IncidentKind::kStuck);
  }
  WatchRanks(run, now, findings);
  const double standstill = now - run.progress_at();
  if (standstill < settings_.witness_seconds - kTickSeconds) return;
  // A lost process explains why its peers wait.
  for (const auto& [number, rank] : run.ranks())
    if (rank.gone) return;
  Suspects suspects = SuspectsOf(run, gpus_, now);
  const double deadline = Deadline(run, suspects, now);
  if (standstill < deadline || now - LastStepOf(suspects, run) < deadline) return;
  if (is_raised_ && !IsNews(run, now, &suspects)) return;
  if (!is_raised_) reported_at_ = now;
  is_raised_ = true;
  reported_step_ = run.step();
  reported_ranks_ = suspects.ranks;
  findings->Raise(Describe(run, suspects, deadline, now));
}

// For a raised finding: the ranks that hold up the run, once known, and ranks that fell silent with the first, whose
// turns to beat are some time apart. Ranks that were named before stay in front.
bool StuckDetector::IsNews(const RunState& run, double now, Suspects* suspects) const {
  if (reported_ranks_.empty()) return !suspects->ranks.empty();
  if (!suspects->is_silent || now - reported_at_ > LateSeconds(run)) return false;
  std::vector<int64_t> all = reported_ranks_;
  for (const int64_t rank : suspects->ranks)
    if (std::find(reported_ranks_.begin(), reported_ranks_.end(), rank) == reported_ranks_.end()) all.push_back(rank);
  const bool are_more = all.size() > reported_ranks_.size() && suspects->ranks.size() == all.size();
  suspects->ranks = std::move(all);
  return are_more;
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
    // While all ranks stood still, this one was no worse than the others.
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
  finding.ranks = suspects.ranks;
  finding.since_step = run.step();
  finding.evidence.SetText("phase", NameOf(run.phase()));
  finding.evidence.SetText("witness", suspects.witness);
  const RankState* culprit = suspects.ranks.empty() ? nullptr : run.FindRank(suspects.ranks.front());
  if (culprit != nullptr) {
    // A silent rank has finished the steps of its peers, too, though it did not report them.
    if (culprit->step && !suspects.is_silent) finding.since_step = culprit->step;
    if (!culprit->module.empty()) finding.evidence.Set("module", culprit->module);
    if (culprit->process_state != 0) finding.evidence.Set("process_state", std::string(1, culprit->process_state));
    finding.evidence.Set("silent_seconds", now - culprit->reported_at);
    finding.evidence.Set("standstill_seconds", now - culprit->step_at);
  } else {
    finding.evidence.Set("standstill_seconds", now - run.progress_at());
  }
  finding.evidence.Set("deadline_seconds", deadline);
  finding.evidence.Set("step_seconds", run.pace().StepSeconds());
  const std::vector<int64_t> waiting = RanksWaiting(run);
  if (!waiting.empty()) finding.evidence.Set("waiting_ranks", waiting);
  return finding;
}

}  // namespace stepwatch::operations
