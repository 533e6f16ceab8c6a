// Series by step as rows of the store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operations/store/batch.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Inside a transaction of the caller's.
Status WriteSeries(database::Database* database, const StoredSeries& series);
Result<std::vector<SeriesPoint>> ReadSeries(database::Database* database, const std::string& run,
                                            const std::string& name);
// Merges neighbours of each series that has more than so many points, until half as many are left.
Status ThinSeries(database::Database* database, int64_t points_max);

}  // namespace stepwatch::operations
