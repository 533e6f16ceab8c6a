// Facade of incident detection: takes log lines, returns incident changes.
//
// An Observer holds the registry of runs, the detectors of each run, and the incident manager of each run. It does no
// I/O and reads no clock: time comes with the lines and with AdvanceTo, always in the observer's wall clock. A wall
// clock that is set must be reported by a ClockStepEvent (of any run, or without one: of an empty name); inside, time
// never falls. The same lines give the same incidents, ids included.
//
// After a kill: call Adopt for each incident that was open, then Learn the lines that were kept of runs that have not
// ended (some minutes of them are enough to learn their pace again; from the last start or restart on is best), and
// then EndLearning. An adopted incident keeps its id, and is neither opened twice nor forgotten.
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

  // Time begins at `t` at the earliest, unless it has begun: lines of before are seen then.
  void SetEarliest(double t);
  // Takes the line as seen at its `t`, after everything that was due until then. Returns the changes in the order in
  // which they happened.
  std::vector<Incident> Observe(const Line& line);
  // As Observe, of the past: only the run of the line is looked at, and only then, so that thousands of runs over
  // months take no longer than their lines.
  void Learn(const Line& line);
  // Every run is looked at once, at the time of the last line.
  void EndLearning();
  // Time passes to `t` with no line. Call it about once a second; a time that has passed already does nothing.
  std::vector<Incident> AdvanceTo(double t);
  // Likewise, by seconds.
  std::vector<Incident> AdvanceBy(double seconds);
  // Now, in the observer's wall clock; 0 before the first line.
  double t() const;

  // Without their ranks, in the order in which they were first seen.
  std::vector<RunSnapshot> Runs() const;
  std::optional<RunSnapshot> Run(std::string_view id) const;
  // Names of the numbers that are kept by step: loss, grad_norm, lr, step_seconds, tokens and what else is reported.
  std::vector<std::string> SeriesNames(std::string_view run) const;
  // Values are those of the lowest rank that reports the number. Empty if there is no such run or number.
  std::vector<SeriesPoint> SeriesOf(std::string_view run, std::string_view name) const;
  // Those that are open, the oldest first.
  std::vector<Incident> OpenIncidents() const;
  void Adopt(const Incident& open);
  // Whether the run is kept.
  bool Knows(std::string_view run) const;
  // Applies these settings to all detectors from now on. Learnt levels and open incidents stay.
  void Apply(const Settings& settings);
  // Lines of more runs or ranks than are kept.
  int64_t lines_dropped() const;
  // How often the series of a run were halved because a limit was reached.
  int64_t series_halved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepwatch::operations
