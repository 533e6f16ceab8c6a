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
#include "operations/store/pruner.h"
#include "operations/store/restored.h"
#include "operations/store/series_table.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

struct StoreOptions {
  std::string path;
  std::string vfs;  // of SQLite; empty: its usual one
};

class Store {
 public:
  // Makes the file if it does not exist. kUnsupported: a later version wrote it. kInvalid: it is damaged, or not a
  // database.
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options);

  // Writes all of it or nothing.
  Status Write(const Batch& batch);
  // See Pruner.
  Result<bool> Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most) {
    return pruner_.Prune(limits, t, at_most);
  }
  Result<Restored> Load() { return ReadRestored(&database_); }
  Result<std::vector<SeriesPoint>> SeriesOf(const std::string& run, const std::string& name) {
    return ReadSeries(&database_, run, name);
  }
  Result<std::vector<std::string>> SeriesNames(const std::string& run);
  Result<std::vector<StoredChange>> ChangesOf(const std::string& incident) { return ReadChanges(&database_, incident); }
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

  const StoreOptions options_;
  int64_t proof_ = 0;
  database::Database database_;
  Pruner pruner_{&database_};
};

}  // namespace stepwatch::operations
