// One run: its ranks, their progress, and its learnt pace. Times are virtual seconds.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/runs/rank_state.h"
#include "operations/runs/run_totals.h"
#include "operations/runs/sample_window.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"
#include "operations/runs/time_account.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// The learnt pace of a run. A restart resets it, except for the phases and the duration of a step.
struct Pace {
  Pace() : step_seconds(64) {}

  SampleWindow step_seconds;       // of the wall clock, per step
  double step_seconds_before = 0;  // the typical one before the restart
  int64_t advances = 0;            // number of times that the run's step rose in training
  double first_seconds = 0;        // the longest standstill of the first steps
  // The longest standstill that was followed by a step, the first steps left out. One that was too long to be usual is
  // left out as well, until there is a second one.
  double standstill_seconds = 0;
  double standstill_seconds_second = 0;  // the second longest: a single one is not usual
  double standstill_seconds_odd = 0;     // the longest that was left out
  double beat_seconds = 0;               // between beats of a rank, typical
  double together = 0;                   // share of the steps that all ranks reported at once, smoothed
  // 0: not yet known.
  double StepSeconds() const;
  // True if all ranks report a step as soon as it ends: a rank that has not reported it has not finished it.
  bool AreTogether() const;
  void AddTogether(bool is_together);
  void AddStandstill(double seconds);
};

class RunState {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  RunState(std::string id, double now, double wall);

  // These apply a line that was seen at `now`, which must not decrease. A rank beyond the limit is refused with null.
  std::optional<BeatFacts> TakeBeat(const Line& line, double now, double wall, size_t ranks_max);
  // Returns whether the event makes the run start again.
  bool BeginsAgain(const Event& event, std::optional<int64_t> rank) const;
  void TakeEvent(const Line& line, double now, double wall);
  TimeAccount& time() { return time_; }
  const TimeAccount& time() const { return time_; }
  // Points of all its numbers.
  size_t Points() const;
  void HalveSeries();
  // Its numbers by step are no longer needed.
  void ForgetSeries();
  // It ended long ago: it may begin again without a monitor.
  void ForgetMonitor() { has_monitor_ = false; }
  void ResetCounters() { totals_.ResetCounters(); }
  // Checks whether a pause is over.
  void Advance(double now);

  const std::string& id() const { return id_; }
  // A monitor of the job reports beats; false: they are known from its logs alone.
  bool has_monitor() const { return has_monitor_; }
  bool ended() const { return ended_; }
  // True if no process is left of those that reported, or of `world`.
  bool AreAllGone() const;
  EndReason end_reason() const { return end_reason_; }
  double ended_at() const { return ended_at_; }
  // A pause that has expired no longer protects, even if beats still report a pause.
  bool is_paused(double now) const { return now < paused_until_ || (phase_counts_[4] > 0 && !has_pause_expired_); }
  const std::map<int64_t, RankState>& ranks() const { return ranks_; }
  const RankState* FindRank(int64_t rank) const;
  // The number of ranks: those that reported, or `world` if that is more.
  int64_t world() const;
  std::optional<int64_t> step() const { return step_; }
  // The time of the last progress: a step, a phase, the end of a pause, a start.
  double progress_at() const { return progress_at_; }
  double began_at() const { return began_at_; }  // start or last restart
  // The phase of a rank that excuses the longest standstill.
  RunPhase phase() const;
  // True if a rank is in eval, checkpoint or pause, or was within the last seconds.
  double left_training_at() const { return left_training_at_; }
  double longest(RunPhase phase) const { return longest_[static_cast<size_t>(phase)]; }
  // Number of times that the run was in the phase and left it.
  int64_t times(RunPhase phase) const { return times_[static_cast<size_t>(phase)]; }
  const Pace& pace() const { return pace_; }
  int64_t restarts() const { return restarts_; }
  double reported_at() const { return reported_at_; }
  const std::map<std::string, Series, std::less<>>& series() const { return series_; }
  // `wall_minus_virtual` converts times to the observer's clock.
  RunSnapshot Snapshot(double now, double wall_minus_virtual, bool with_ranks) const;

 private:
  RankState* RankOf(int64_t rank, double now, size_t ranks_max);
  // The time at which the last process was gone.
  double gone_at() const;
  void NoteLine(double now, double wall);
  void Restart(double now);
  void CountPhase(RunPhase before, RunPhase after, double now);
  void Progress(const BeatFacts& facts, double wall);
  void Keep(const Beat& beat, const BeatFacts& facts, double wall);
  void KeepEvaluation(const Beat& beat, const BeatFacts& facts, double wall);
  void KeepValue(int64_t rank, std::string_view name, int64_t step, double wall, double value);

  std::string id_;
  std::map<int64_t, RankState> ranks_;
  std::optional<int64_t> world_;
  std::vector<std::string> hosts_;
  std::string owner_, partition_;  // by the scheduler; empty: not known
  bool ended_ = false;
  EndReason end_reason_ = EndReason::kOk;
  double ended_at_ = 0;
  double paused_until_ = 0;
  bool has_pause_expired_ = false;
  std::optional<int64_t> step_;
  std::optional<int64_t> checkpoint_step_;
  std::optional<double> checkpoint_at_;
  double step_at_ = 0;
  size_t ranks_at_step_ = 0;
  double last_at_step_ = 0;  // when the last of them reported it
  double began_at_;
  double reported_at_;
  bool has_monitor_ = false;
  bool is_heard_ = false;  // false: it is known from a store only, and time may not have begun
  double started_wall_;
  double reported_wall_;
  double progress_at_;
  double left_training_at_ = -kNever;
  std::array<int64_t, 5> phase_counts_{};
  std::array<double, 5> phase_since_{};
  std::array<double, 5> longest_{};
  std::array<int64_t, 5> times_{};
  Pace pace_;
  RunTotals totals_;
  TimeAccount time_;
  double first_at_ = 0;  // the first line
  int64_t restarts_ = 0;
  std::map<std::string, Series, std::less<>> series_;
  std::map<std::string, int64_t, std::less<>> series_rank_;
};

}  // namespace stepwatch::operations
