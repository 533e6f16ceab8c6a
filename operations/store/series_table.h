// Series by step as rows of the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/store/batch.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// In the order of the table: by run, and then by name.
struct SeriesKey {
  std::string run;
  std::string name;
};

// Within a transaction of the caller.
class SeriesWriter {
 public:
  // The database must outlive it.
  static Result<SeriesWriter> Open(database::Database* database);

  // Replaces the points that the table has of this series from that step on.
  Status Replace(const StoredSeries& series);

 private:
  SeriesWriter(database::Statement remove, database::Statement insert)
      : remove_(std::move(remove)), insert_(std::move(insert)) {}

  database::Statement remove_;
  database::Statement insert_;
};

Result<std::vector<SeriesPoint>> ReadSeries(database::Database* database, const std::string& run,
                                            const std::string& name);
// The series after this one; nullopt: that was the last.
Result<std::optional<SeriesKey>> SeriesAfter(database::Database* database, const SeriesKey& series);
Result<int64_t> PointsOf(database::Database* database, const SeriesKey& series);
// Merges neighbours until at most half of this many points are left.
Status ThinSeries(database::Database* database, const SeriesKey& series, int64_t points_max);
Status DeleteSeries(database::Database* database, const SeriesKey& series);

}  // namespace stepwatch::operations
