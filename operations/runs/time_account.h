// The use of a run's time, as series by time instead of by step: seconds and steps that counted, seconds that were
// lost by cause, and the work that was done. Pure. Durations are virtual seconds, keys seconds of the wall clock.
//
// A step counts once: a run that restarts from a checkpoint repeats steps, whose time is lost. Time beyond
// kStallFactor typical steps is a stall. The account is silent while past lines are learnt: the store has their points.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "operations/runs/series.h"
#include "operations/vocabulary/names.h"

namespace stepwatch::operations {

// Names of the series. `step` is the furthest finished step.
inline constexpr std::array<std::string_view, 16> kTimeSeries = {
    "time.counted_seconds", "time.counted_steps",   "time.step",       "time.step_seconds",
    "time.tokens",          "time.samples",         "time.flops",      "time.gpu_utilization",
    "time.host_memory",     "time.lost.start",      "time.lost.init",  "time.lost.restart",
    "time.lost.eval",       "time.lost.checkpoint", "time.lost.pause", "time.lost.stall",
};
inline constexpr std::string_view kRepeatedSeries = "time.lost.repeated";
bool IsTimeSeries(std::string_view name);

class TimeAccount {
 public:
  // Cumulative work over all ranks; absent: not reported.
  struct Work {
    std::optional<double> tokens, samples, flops;
  };
  struct Advance {
    double now = 0;
    double wall = 0;
    int64_t from = -1;  // the step before, of this start of the run; -1: none
    int64_t to = 0;
    double typical_seconds = 0;  // a step; 0: not known
    Work work;
  };

  void Start(double now);
  // The run begins again.
  void Restart(double now);
  // From `now` on the run is in this phase.
  void TakePhase(double now, RunPhase phase);
  void TakeAdvance(const Advance& advance);
  // A sample of a gauge by time.
  void Gauge(std::string_view name, double wall, double value) { Add(name, wall, value); }

  void SetSilent(bool is_silent) { is_silent_ = is_silent; }
  // The time until now was not watched: nobody knows its use.
  void SkipTime() { accounted_at_.reset(); }
  // Steps up to this one counted before the known lines.
  void CountedUntil(int64_t step) { furthest_ = std::max(furthest_, step); }

  using SeriesByName = std::map<std::string, Series, std::less<>>;
  const SeriesByName& series() const { return series_; }
  void Halve();
  void Forget() { series_.clear(); }

 private:
  void Add(std::string_view name, double wall, double value);
  void Lose(std::string_view name, double wall, double seconds) {
    if (seconds > 0) Add(name, wall, seconds);
  }
  void CountWork(const Advance& advance);

  SeriesByName series_;
  bool is_silent_ = false;
  std::optional<double> accounted_at_;  // all time before is in the series
  bool is_starting_ = true;             // no step since the start
  bool is_restarting_ = false;          // no step since the restart
  RunPhase phase_ = RunPhase::kInit;
  RunPhase left_ = RunPhase::kTrain;  // a rank has left it with a step; the others follow
  double phase_at_ = 0;
  std::array<double, 5> phase_seconds_{};  // since accounted_at_
  int64_t furthest_ = -1;
  std::array<double, 3> work_{};
};

}  // namespace stepwatch::operations
