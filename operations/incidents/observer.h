// Facade of incident detection: processes log lines, returns incident changes.
//
// An Observer holds the registry of runs, the detectors of each run, and the incident manager of each run. It does no
// I/O and reads no clock: time comes with the lines and with AdvanceTo, always in the observer's wall clock. A wall
// clock that is set must be reported by a ClockStepEvent (of any run, or without one: an empty name); internal time
// never decreases. The same lines lead to the same incidents, ids included.
//
// After a kill: call Adopt for each open incident, then Learn for the kept lines of runs that have not ended (some
// minutes of them are enough to learn their pace again; from the last start or restart on is best), and then
// EndLearning. An adopted incident keeps its id, and is neither opened twice nor forgotten.
//
// Memory is bounded: kRunsMax runs, of which those that ended first are forgotten first, and then those without reports
// for hours; kRanksMax ranks a run and kRanksOfAllMax in all, windows and series of fixed size for each, series until
// some minutes after the end; kPointsOfAllMax points of series in all, over which the run that has most of them keeps
// half as many.
//
// Not thread-safe; one thread owns it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/detectors/settings.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"
#include "operations/vocabulary/incident.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

class RunState;

inline constexpr size_t kRunsMax = 4096;
inline constexpr size_t kRanksMax = 1 << 17;
inline constexpr size_t kRanksOfAllMax = 1 << 18;
inline constexpr size_t kPointsOfAllMax = 1 << 20;

class Observer {
 public:
  explicit Observer(const Settings& settings = {});
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  Observer(Observer&&) noexcept;
  Observer& operator=(Observer&&) noexcept;

  // Time begins at `t` at the earliest, unless it has begun: earlier lines are seen at `t`.
  void SetEarliest(double t);
  // Processes the line as seen at its `t`, after everything that was due until then. Returns the changes in the order
  // in which they happened.
  std::vector<Incident> Observe(const Line& line);
  // Like Observe, for past lines: only the run of the line is checked, at this time, so that the cost of thousands of
  // runs over months is that of their lines.
  void Learn(const Line& line);
  // Checks every run once, at the time of the last line. Counters of the runs begin at 0: see RunTotals.
  void EndLearning();
  // Advances time to `t` without a line. Call it about once a second; an earlier time has no effect.
  std::vector<Incident> AdvanceTo(double t);
  // Likewise, by seconds.
  std::vector<Incident> AdvanceBy(double seconds);
  // The present, in the observer's wall clock; 0 before the first line.
  double t() const;

  // Without their ranks, in the order in which they were first seen.
  std::vector<RunSnapshot> Runs() const;
  // With their ranks and numbers: runs that ended, or of which the last line came, at most this long ago.
  std::vector<RunSnapshot> RunsOfLate(double ended_seconds_max, double silent_seconds_max) const;
  std::optional<RunSnapshot> Run(std::string_view id) const;
  // Null if there is no such run; valid until the next call that changes the observer.
  const RunState* StateOf(std::string_view run) const;
  // Names of the numbers that are kept by step: loss, grad_norm, lr, step_seconds, tokens and other reported ones; and
  // those that are kept by time: see TimeAccount.
  std::vector<std::string> SeriesNames(std::string_view run) const;
  // Values are those of the lowest rank that reports the number. Empty if there is no such run or number.
  std::vector<SeriesPoint> SeriesOf(std::string_view run, std::string_view name) const;
  // Steps of the run up to this one counted before: see TimeAccount.
  void CountedUntil(std::string_view run, int64_t step);
  // The open incidents, the oldest first.
  std::vector<Incident> OpenIncidents() const;
  void Adopt(const Incident& open);
  // Returns whether the run is kept.
  bool Knows(std::string_view run) const;
  // Applies these settings to all detectors from now on. Learnt levels and open incidents stay.
  void Apply(const Settings& settings);
  // Lines of runs or ranks beyond the limits.
  int64_t lines_dropped() const;
  // How often the series of a run were halved because a limit was reached.
  int64_t series_halved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepwatch::operations
