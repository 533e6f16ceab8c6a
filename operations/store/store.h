// The data of stepwatchd in a SQLite database: one transaction for each batch, so that a kill at any point leaves the
// last one whole.
//
// The database is in WAL mode with synchronous=NORMAL: a kill of the process loses no written data; a power cut may
// lose the last batches only. Not thread-safe; it blocks, so it has a thread of its own (StoreQueue).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operations/store/batch.h"
#include "operations/store/series_table.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// The largest number of a line or change. A larger one is damaged, and counting on from it would overflow.
inline constexpr int64_t kStoredNumberMax = int64_t{1} << 53;

struct StoreOptions {
  std::string path;
  std::string vfs;  // of SQLite; empty: its usual one
};

// Limits of the stored data. Prune removes the oldest data beyond a limit first.
struct StoreLimits {
  double line_seconds = 1800;              // of open runs, to restore them
  int64_t line_bytes = int64_t{64} << 20;  // of all runs together
  int64_t bytes = int64_t{1} << 30;     // of the file: series and summaries of runs that have ended are removed first
  double ended_seconds = 90 * 86400.0;  // runs and incidents
  int64_t points_of_series = 4096;
};

struct StoredIncident {
  int64_t number = 0;  // of its last change
  Incident incident;
  std::optional<Acknowledgement> acknowledgement;
};

// The data of the previous process that a new one restores.
struct Restored {
  std::vector<StoredIncident> incidents;  // all open ones, and the newest of the others; the oldest change first
  std::vector<StoredChange> changes;      // the newest, the oldest first
  std::vector<StoredLine> lines;          // of open runs, in the order in which they were observed
  std::vector<StoredRun> runs;            // that have ended, the one with the newest line first
  std::vector<Silence> silences;
  std::vector<KnownProcess> processes;
  int64_t number_last = 0;  // of lines and changes
  double t_last = 0;        // of the last line; 0 without lines
  // Incidents and changes whose text is damaged, as statements that delete them.
  std::vector<std::string> unreadable;

  // Adds all data that was written since it was read.
  void Append(const Batch& later);
};

class Store {
 public:
  static constexpr int64_t kIncidentsRestored = 2000;
  static constexpr int64_t kChangesRestored = 1000;
  static constexpr int64_t kRunsRestored = 1000;
  static constexpr int64_t kOpenRunsRestored = 4096;
  static constexpr int64_t kLineBytesRestored = int64_t{16} << 20;  // the newest

  // Makes the file if it does not exist. kUnsupported: a later version wrote it. kInvalid: it is damaged, or not a
  // database.
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options);

  // Writes all of it or nothing.
  Status Write(const Batch& batch);
  // Deletes data beyond the limits at the present time `t`, for about the given duration. False: there is more to
  // delete.
  Result<bool> Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most);
  Result<Restored> Load();
  Result<std::vector<SeriesPoint>> SeriesOf(const std::string& run, const std::string& name);
  Result<std::vector<std::string>> SeriesNames(const std::string& run);
  // Every change of an incident, the oldest first; empty if the incident is unknown.
  Result<std::vector<StoredChange>> ChangesOf(const std::string& incident);
  // Size of the database, without its log.
  Result<int64_t> Bytes();
  // The number of the last stored change of an incident; 0: no change.
  Result<int64_t> LastChange();

  // Checks that the files hold a whole database, as another program that opens it now would find them; reads all of it.
  // kInvalid: they do not.
  Status Check();
  // Writes a number, and reads it back from the files.
  Status Prove();
  // Copies all readable rows of another store.
  Status TakeOver(database::Database* other);
  Status Delete(const std::vector<std::string>& unreadable);
  database::Database* database() { return &database_; }

 private:
  Store(StoreOptions options, database::Database database)
      : options_(std::move(options)), database_(std::move(database)) {}
  Status WriteAll(const Batch& batch);
  Status WriteLines(const std::deque<StoredLine>& lines);
  Status WriteRuns(const Batch& batch);
  Status WriteChange(const StoredChange& change);
  Status WriteSilences(const Batch& batch);
  Status WriteProcesses(const Batch& batch);
  Status WriteSeries(const std::vector<StoredSeries>& all);
  Status PruneLines(const StoreLimits& limits, double t);
  Status PruneOld(const StoreLimits& limits, double t);
  Result<bool> ThinNext(int64_t points_max);
  Result<bool> ForgetSome(const StoreLimits& limits, double t);
  Status ForgetRun(const std::string& run);
  Status LoadIncidents(Restored* restored);
  Status LoadLines(Restored* restored);
  Status LoadRuns(Restored* restored);
  Status LoadProcesses(Restored* restored);
  // One transaction around `work`; rolled back completely if any of it fails.
  template <class Work>
  Status Transact(const Work& work) {
    Status status = database_.Execute("BEGIN IMMEDIATE");
    if (!status.ok()) return status;
    status = work();
    if (status.ok()) status = database_.Execute("COMMIT");
    // Some errors have ended the transaction already.
    if (!status.ok() && !database_.is_autocommit()) (void)database_.Execute("ROLLBACK");
    return status;
  }

  const StoreOptions options_;
  int64_t proof_ = 0;
  SeriesKey thinned_;  // the last one that was checked
  database::Database database_;
};

}  // namespace stepwatch::operations
