// Series by step as rows of the store.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "operations/store/batch.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Inside a transaction of the caller's.
class SeriesWriter {
 public:
  // The database must outlive it.
  static Result<SeriesWriter> Open(database::Database* database);

  // In the place of what the table has of this series from that step on.
  Status Replace(const StoredSeries& series);

 private:
  SeriesWriter(database::Statement remove, database::Statement insert)
      : remove_(std::move(remove)), insert_(std::move(insert)) {}

  database::Statement remove_;
  database::Statement insert_;
};

Result<std::vector<SeriesPoint>> ReadSeries(database::Database* database, const std::string& run,
                                            const std::string& name);
// Merges neighbours of each series that has more than so many points, until half as many are left.
Status ThinSeries(database::Database* database, int64_t points_max);

}  // namespace stepwatch::operations
