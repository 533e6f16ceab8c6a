// Deletion of old data from the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "operations/store/series_table.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Limits of the stored data. The oldest data beyond a limit is removed first.
struct StoreLimits {
  double line_seconds = 1800;              // of open runs, to restore them
  int64_t line_bytes = int64_t{64} << 20;  // of all runs together
  int64_t bytes = int64_t{1} << 30;     // of the file: series and summaries of runs that have ended are removed first
  double ended_seconds = 90 * 86400.0;  // runs and incidents
  int64_t points_of_series = 4096;
};

class Pruner {
 public:
  // The database must outlive it.
  explicit Pruner(database::Database* database) : database_(*database) {}

  // Deletes data beyond the limits at the present time `t`, for about the given duration, in short transactions. False:
  // there is more to delete.
  Result<bool> Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most);

 private:
  Status PruneLines(const StoreLimits& limits, double t);
  Status PruneOld(const StoreLimits& limits, double t);
  Result<bool> ThinNext(int64_t points_max);
  Result<bool> ForgetSome(const StoreLimits& limits, double t);
  Status ForgetRun(const std::string& run);

  database::Database& database_;
  SeriesKey thinned_;  // the last one that was checked
};

}  // namespace stepwatch::operations
