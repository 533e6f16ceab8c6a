// The tables of a trend database, in the schema that msProbe's tools read.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/database/database.h"
#include "src/offline/trend_scan.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

using database::Database;
using database::Statement;

struct TrendMetric {
  std::string name;  // a kind
  TrendScan scan;    // of all its files
};

struct TrendBounds {
  int64_t min_step = 0;
  int64_t max_step = 0;
  int64_t max_rank = 0;
};

using TargetIds = std::unordered_map<TrendTarget, int64_t, TrendTargetHash>;

// Makes all tables and fills all but trend_data. Metric i of `metrics` gets the id i + 1.
Result<TargetIds> MakeTrendTables(const std::vector<TrendMetric>& metrics, const std::vector<std::string>& stats,
                                  const TrendBounds& bounds, Database* database);

// Inserts into trend_data: rank, step, target_id, metric_id, then `stats`; an existing row is kept.
std::string InsertTrendSql(const std::vector<std::string>& stats);

}  // namespace stepwatch::offline
