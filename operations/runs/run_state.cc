#include "operations/runs/run_state.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stepwatch::operations {
namespace {

// The first steps after a start compile and warm up: they are left out of the learnt pace.
constexpr int64_t kWarmUpAdvances = 5;
constexpr double kGoneSecondsMin = 5;
constexpr size_t kHostsMax = 256;
constexpr size_t kSeriesMax = 96;
constexpr int64_t kRanksReported = 4096;  // of which only the end is known
constexpr double kTogether = 0.25;        // of the time between beats, in which all ranks report a step
constexpr double kTogetherShare = 0.75;   // of the steps: two ranks that beat independently do so for half
constexpr double kTogetherSmoothing = 0.1;
constexpr double kBeatSmoothing = 0.02;
// A standstill beyond both limits is a fault or an exception, and not part of the pace.
constexpr double kStandstillSeconds = 120;
constexpr double kStandstillFactor = 3;
// Phases by the standstill that they excuse, the longest first.
constexpr std::array<RunPhase, 4> kByPatience = {RunPhase::kPaused, RunPhase::kCheckpoint, RunPhase::kEval,
                                                 RunPhase::kInit};

RankSnapshot SnapshotOf(const RankState& rank, WorkValues work, double now) {
  RankSnapshot shown;
  shown.rank = rank.rank;
  shown.phase = rank.phase;
  shown.step = rank.step;
  shown.heard_seconds_ago = now - rank.reported_at;
  shown.step_seconds_ago = now - rank.step_at;
  shown.module = rank.module;
  shown.gone = rank.gone;
  shown.process_state = rank.process_state;
  if (rank.waits) shown.waits_in = rank.waits_in.empty() ? "unknown" : rank.waits_in;
  if (rank.step_seconds.is_known) shown.step_seconds = rank.step_seconds.value;
  shown.work = std::move(work);
  return shown;
}

}  // namespace

double Pace::StepSeconds() const {
  if (step_seconds.size() < 3) return step_seconds_before;
  if (const double median = step_seconds.Median(); median > 0) return median;
  // If times have a resolution of whole seconds, most steps seem to last 0 s. The longest are left out.
  std::vector<double> all = step_seconds.Last(step_seconds.size());
  std::sort(all.begin(), all.end());
  all.resize(all.size() - all.size() / 10);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

bool Pace::AreTogether() const {
  return together > kTogetherShare;
}

void Pace::AddTogether(bool is_together) {
  together += kTogetherSmoothing * ((is_together ? 1 : 0) - together);
}

void Pace::AddStandstill(double seconds) {
  if (seconds > std::max(kStandstillSeconds, kStandstillFactor * standstill_seconds)) {
    const double longest = std::max(seconds, standstill_seconds_odd);
    const double again = std::min(seconds, standstill_seconds_odd);
    standstill_seconds_odd = longest;
    seconds = again;
  }
  if (seconds > standstill_seconds)
    standstill_seconds_second = std::exchange(standstill_seconds, seconds);
  else
    standstill_seconds_second = std::max(standstill_seconds_second, seconds);
}

RunState::RunState(std::string id, double now, double wall)
    : id_(std::move(id)),
      began_at_(now),
      reported_at_(now),
      started_wall_(wall),
      reported_wall_(wall),
      progress_at_(now) {}

const RankState* RunState::FindRank(int64_t rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

int64_t RunState::world() const {
  return std::max(world_.value_or(0), static_cast<int64_t>(ranks_.size()));
}

bool RunState::AreAllGone() const {
  return !ranks_.empty() && static_cast<int64_t>(ranks_.size()) >= world() &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.second.gone; });
}

double RunState::gone_at() const {
  double last = 0;
  for (const auto& [number, rank] : ranks_) last = std::max(last, rank.gone_at);
  return last;
}

RunPhase RunState::phase() const {
  for (const RunPhase phase : kByPatience) {
    const int64_t count = phase_counts_[static_cast<size_t>(phase)];
    if (phase == RunPhase::kPaused && has_pause_expired_) continue;
    // A rank that joins late does not delay a run that trains.
    if (phase == RunPhase::kInit ? count > 0 && phase_counts_[1] == 0 : count > 0) return phase;
  }
  return ranks_.empty() ? RunPhase::kInit : RunPhase::kTrain;
}

RankState* RunState::RankOf(int64_t rank, double now, size_t ranks_max) {
  const auto found = ranks_.find(rank);
  if (found != ranks_.end()) return &found->second;
  if (ranks_.size() >= ranks_max) return nullptr;
  RankState& state = ranks_[rank];
  state.rank = rank;
  state.reported_at = state.phase_at = state.step_at = state.changed_at = now;
  const auto phase = static_cast<size_t>(state.phase);
  // The first rank begins when the run does.
  if (phase_counts_[phase]++ == 0) phase_since_[phase] = ranks_.size() == 1 ? began_at_ : now;
  return &state;
}

std::optional<BeatFacts> RunState::TakeBeat(const Line& line, double now, double wall, size_t ranks_max) {
  NoteLine(now, wall);
  RankState* rank = RankOf(*line.rank, now, ranks_max);
  if (rank == nullptr) return std::nullopt;
  const Beat& beat = std::get<Beat>(line.what);
  has_monitor_ = has_monitor_ || !beat.is_of_log;
  const RunPhase phase_before = rank->phase;
  // Beats after the end were sent before it.
  const BeatFacts facts = ApplyBeat(beat, now, rank);
  if (rank->phase != phase_before) CountPhase(phase_before, rank->phase, now);
  time_.TakePhase(now, is_paused(now) ? RunPhase::kPaused : phase());
  if (rank->beat_seconds > 0)
    pace_.beat_seconds = pace_.beat_seconds == 0
                             ? rank->beat_seconds
                             : pace_.beat_seconds + kBeatSmoothing * (rank->beat_seconds - pace_.beat_seconds);
  // A beat may have been on its way when the process ended.
  if (facts.advanced > 0 && rank->gone && !ended_ && now - rank->gone_at > kGoneSecondsMin) rank->gone = false;
  totals_.TakeBeat(beat, facts);
  Progress(facts, wall);
  Keep(beat, facts, wall);
  return facts;
}

void RunState::CountPhase(RunPhase before, RunPhase after, double now) {
  const auto from = static_cast<size_t>(before);
  const auto to = static_cast<size_t>(after);
  if (--phase_counts_[from] == 0 && before != RunPhase::kTrain) {
    longest_[from] = std::max(longest_[from], now - phase_since_[from]);
    ++times_[from];
  }
  if (phase_counts_[to]++ == 0) phase_since_[to] = now;
  progress_at_ = now;
  if (before != RunPhase::kTrain || after != RunPhase::kTrain) left_training_at_ = now;
}

void RunState::Progress(const BeatFacts& facts, double wall) {
  if (facts.rewound) step_.reset();
  if (facts.advanced > 0 && step_ && facts.step == *step_) {
    ++ranks_at_step_;
    last_at_step_ = facts.now;
  }
  if (facts.advanced == 0 || (step_ && facts.step <= *step_)) return;
  pace_.AddTogether(ranks_at_step_ >= ranks_.size() && last_at_step_ - step_at_ < kTogether * pace_.beat_seconds);
  ranks_at_step_ = 1;
  last_at_step_ = facts.now;
  double& longest_init = longest_[static_cast<size_t>(RunPhase::kInit)];
  if (!step_ && pace_.advances == 0) longest_init = std::max(longest_init, facts.now - began_at_);
  const bool is_training = phase() == RunPhase::kTrain && left_training_at_ < step_at_ && step_;
  if (is_training) {
    const double seconds = facts.now - progress_at_;
    ++pace_.advances;
    if (pace_.advances > kWarmUpAdvances) {
      pace_.step_seconds.Add(seconds / static_cast<double>(facts.step - *step_));
      pace_.AddStandstill(seconds);
    } else {
      pace_.first_seconds = std::max(pace_.first_seconds, seconds);
    }
  }
  if (step_ && phase() == RunPhase::kTrain)
    totals_.TakeAdvance({*step_, facts.step, facts.now - progress_at_, pace_.StepSeconds(), is_training});
  const RunTotals::Work work = totals_.work();
  time_.TakeAdvance(
      {facts.now, wall, step_.value_or(-1), facts.step, pace_.StepSeconds(), {work.tokens, work.samples, work.flops}});
  step_ = facts.step;
  step_at_ = progress_at_ = facts.now;
  if (phase_counts_[static_cast<size_t>(RunPhase::kPaused)] == 0) has_pause_expired_ = false;
}

void RunState::NoteLine(double now, double wall) {
  reported_at_ = now;
  reported_wall_ = wall;
  if (!is_heard_) {
    first_at_ = began_at_ = progress_at_ = now;
    time_.Start(now);
  }
  is_heard_ = true;
}

void RunState::Restart(double now) {
  ended_ = false;
  paused_until_ = 0;
  step_.reset();
  began_at_ = progress_at_ = left_training_at_ = now;
  Pace pace;
  pace.step_seconds_before = pace_.StepSeconds();
  pace.beat_seconds = pace_.beat_seconds;
  pace_ = std::move(pace);
  has_pause_expired_ = false;
  ranks_.clear();
  totals_.Restart();
  time_.Restart(now);
  phase_counts_ = {};
  ++restarts_;
}

size_t RunState::Points() const {
  size_t points = 0;
  for (const auto& [name, series] : series_) points += series.points().size();
  for (const auto& [name, series] : time_.series()) points += series.points().size();
  return points;
}

void RunState::HalveSeries() {
  for (auto& [name, series] : series_) series.Halve();
  time_.Halve();
}

void RunState::ForgetSeries() {
  series_.clear();
  series_rank_.clear();
  time_.Forget();
}

void RunState::Advance(double now) {
  if (paused_until_ > 0 && now >= paused_until_) {
    progress_at_ = std::max(progress_at_, paused_until_);
    time_.TakePhase(paused_until_, phase());
    left_training_at_ = std::max(left_training_at_, paused_until_);
    paused_until_ = 0;
    has_pause_expired_ = true;
  }
}

bool RunState::BeginsAgain(const Event& event, std::optional<int64_t> rank) const {
  return std::holds_alternative<RestartEvent>(event) ||
         (std::holds_alternative<StartEvent>(event) && (ended_ || (step_ && !rank)));
}

void RunState::TakeEvent(const Line& line, double now, double wall) {
  NoteLine(now, wall);
  const Event& event = std::get<Event>(line.what);
  if (BeginsAgain(event, line.rank)) Restart(now);
  const auto begin = [&](const auto& started) {
    const std::string& host = started.host;
    if (started.world) world_ = *started.world;
    if (!host.empty() && hosts_.size() < kHostsMax && std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end())
      hosts_.push_back(host);
    if (!started.owner.empty()) owner_ = started.owner;
    if (!started.partition.empty()) partition_ = started.partition;
  };
  const auto found = line.rank ? ranks_.find(*line.rank) : ranks_.end();
  RankState* rank = found == ranks_.end() ? nullptr : &found->second;
  if (const auto* start = std::get_if<StartEvent>(&event)) {
    begin(*start);
  } else if (const auto* restart = std::get_if<RestartEvent>(&event)) {
    begin(*restart);
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    if (!ended_) ended_at_ = now;
    ended_ = true;
    end_reason_ = end->reason;
    paused_until_ = 0;
  } else if (const auto* pause = std::get_if<PauseEvent>(&event)) {
    if (ended_) return;
    paused_until_ = now + pause->expires_seconds.value_or(kNever);
    time_.TakePhase(now, RunPhase::kPaused);
    has_pause_expired_ = false;
  } else if (std::holds_alternative<ResumeEvent>(event)) {
    if (paused_until_ > 0) progress_at_ = left_training_at_ = now;
    time_.TakePhase(now, phase());
    paused_until_ = 0;
    has_pause_expired_ = false;
  } else if (const auto* checkpoint = std::get_if<CheckpointEvent>(&event)) {
    checkpoint_step_ = checkpoint->step ? checkpoint->step : step_;
    checkpoint_at_ = now;
  } else if (const auto* gpu = std::get_if<GpuEvent>(&event)) {
    if (gpu->field == "utilization" && phase() == RunPhase::kTrain)
      time_.Gauge("time.gpu_utilization", wall, gpu->value);
  } else if (const auto* memory = std::get_if<HostEvent>(&event)) {
    if (memory->cgroup_bytes && memory->cgroup_bytes_max.value_or(0) > 0)
      time_.Gauge("time.host_memory", wall, *memory->cgroup_bytes / *memory->cgroup_bytes_max);
  } else if (std::holds_alternative<ProcessGoneEvent>(event)) {
    // A run that is known from a store may have no beat any more.
    const bool has_room = static_cast<int64_t>(ranks_.size()) < std::clamp<int64_t>(world(), 1, kRanksReported);
    if (rank == nullptr && line.rank && restarts_ == 0 && has_room) rank = RankOf(*line.rank, now, kRanksReported);
    if (rank == nullptr) return;
    if (!rank->gone) rank->gone_at = now;
    rank->gone = true;
  } else if (rank == nullptr) {
    return;
  } else if (const auto* signal = std::get_if<SignalEvent>(&event)) {
    rank->signal = signal->number;
    rank->signal_at = now;
  } else if (const auto* state = std::get_if<ProcessStateEvent>(&event)) {
    if (rank->process_state != state->state) rank->process_state_at = now;
    rank->process_state = state->state;
  } else if (const auto* wait = std::get_if<CollectiveWaitEvent>(&event)) {
    rank->waits = wait->waits;
    rank->waits_in = wait->operation;
  }
}

void RunState::Keep(const Beat& beat, const BeatFacts& facts, double wall) {
  if (facts.late || facts.step < 0) return;
  const int64_t rank = facts.rank->rank;
  const auto keep = [&](std::string_view name, const std::optional<Sample>& sample) {
    if (sample) KeepValue(rank, name, facts.step, wall, sample->value);
  };
  keep("loss", facts.loss);
  keep("grad_norm", facts.grad_norm);
  keep("lr", facts.lr);
  keep("tokens", facts.tokens);
  keep("step_seconds", facts.step_seconds);
  keep("loss_scale", facts.loss_scale);
  KeepEvaluation(beat, facts, wall);
  if (facts.advanced == 0) return;
  for (const auto& [name, value] : beat.reported) KeepValue(rank, name, facts.step, wall, value);
}

// Beats repeat the numbers of the last step: only those that differ from them belong to the evaluation.
void RunState::KeepEvaluation(const Beat& beat, const BeatFacts& facts, double wall) {
  if (beat.phase.value_or(facts.rank->phase) != RunPhase::kEval) return;
  const auto keep = [&](const std::string& name, double value) {
    const auto trained = series_.find(name);
    if (trained != series_.end() && !trained->second.points().empty() && trained->second.points().back().last == value)
      return;
    KeepValue(facts.rank->rank, "eval." + name, facts.step, wall, value);
  };
  if (beat.loss) keep("loss", *beat.loss);
  for (const auto& [name, value] : beat.reported)
    if (!IsWorkNumber(name)) keep(name, value);
}

void RunState::KeepValue(int64_t rank, std::string_view name, int64_t step, double wall, double value) {
  auto owner = series_rank_.find(name);
  if (owner == series_rank_.end()) {
    if (series_.size() >= kSeriesMax) return;
    owner = series_rank_.emplace(name, rank).first;
  }
  if (rank > owner->second) return;
  Series& series = series_.try_emplace(std::string(name)).first->second;
  if (rank < owner->second) series = Series();
  owner->second = rank;
  series.Add(step, wall, value);
}

RunSnapshot RunState::Snapshot(double now, double wall_minus_virtual, bool with_ranks) const {
  RunSnapshot shown;
  shown.id = id_;
  if (world_) shown.world = *world_;
  shown.hosts = hosts_;
  shown.owner = owner_;
  shown.partition = partition_;
  // The run itself continues: one of its processes may come back.
  const bool is_lost = !ended_ && AreAllGone();
  shown.ended = ended_ || is_lost;
  shown.end_reason = is_lost ? EndReason::kLost : end_reason_;
  if (shown.ended) shown.ended_t = (ended_ ? ended_at_ : gone_at()) + wall_minus_virtual;
  shown.paused = !shown.ended && is_paused(now);
  shown.phase = phase();
  shown.step = step_;
  if (step_) shown.step_t = step_at_ + wall_minus_virtual;
  shown.checkpoint_step = checkpoint_step_;
  if (checkpoint_at_) shown.checkpoint_t = *checkpoint_at_ + wall_minus_virtual;
  shown.started_t = started_wall_;
  shown.heard_t = std::min(reported_wall_, now + wall_minus_virtual);
  shown.restarts = restarts_;
  shown.step_seconds = pace_.StepSeconds();
  for (const auto& [name, series] : series_)
    if (!series.points().empty()) shown.latest.emplace_back(name, series.points().back().last);
  if (!with_ranks) return shown;
  for (const auto& [number, rank] : ranks_) shown.ranks.push_back(SnapshotOf(rank, totals_.Of(number), now));
  const double last = shown.ended ? shown.ended_t - wall_minus_virtual : now;
  shown.numbers = totals_.Numbers(now, is_heard_ ? last - first_at_ : 0, shown.step_seconds);
  return shown;
}

}  // namespace stepwatch::operations
