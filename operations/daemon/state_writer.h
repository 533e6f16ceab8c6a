// Stores the present state of runs, series and processes when it has changed, and remembers what the store holds.
//
// On the thread of the loop, like everything of the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/incidents/observer.h"
#include "operations/store/store_queue.h"

namespace stepwatch::operations {

class Log;

class StateWriter {
 public:
  // All three must outlive it.
  StateWriter(const Observer* observer, StoreQueue* store, Log* log)
      : observer_(*observer), store_(*store), log_(*log) {}

  // The store holds these runs and processes.
  void Restore(const Restored& restored);
  // The observer was replaced: every run is stored again, and its series as well.
  void StartOver();
  // The store may lack earlier data: adds all of it to the next batch.
  void StoreAgain();
  void StoreAllSeries();

  // Stores runs whose state has changed, at most this many. `now`: seconds of the wall clock.
  void StoreRuns(double now, size_t runs_max);
  // Finds runs whose series have grown; StoreSeries stores those of this many of them.
  void FindSeries();
  void StoreSeries(size_t runs_max);
  void StoreAllFoundSeries() { StoreSeries(series_due_.size()); }
  // `known`: all processes of this machine that discovery knows.
  void StoreProcesses(const std::vector<KnownProcess>& known);
  // Forgets the state of runs that the observer has forgotten.
  void ForgetOld();

  // Runs in the store that have ended.
  bool HasEnded(std::string_view run) const { return ended_.contains(run); }
  std::optional<std::string> Summary(std::string_view run) const;
  // Without those that the observer still knows.
  std::vector<std::string> Summaries() const;
  std::vector<KnownProcess> Processes() const;

 private:
  struct RunMark {
    std::string state;
    int64_t step = -1;  // at the last look at its series
    double stored_t = 0;
  };

  void ForgetEnded();
  void StoreSeriesOf(const std::string& run);

  const Observer& observer_;
  StoreQueue& store_;
  Log& log_;
  std::map<std::string, RunMark> marks_;
  std::map<std::pair<std::string, std::string>, int64_t> series_marks_;  // the first step to write next
  std::deque<std::string> series_due_;
  std::map<std::string, StoredRun, std::less<>> ended_;
  std::map<std::string, KnownProcess> processes_;
};

}  // namespace stepwatch::operations
