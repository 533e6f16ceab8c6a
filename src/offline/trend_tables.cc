#include "src/offline/trend_tables.h"

#include <map>

namespace stepwatch::offline {
namespace {

constexpr const char* kFixedTables = R"sql(
CREATE TABLE monitoring_targets (
  target_id INTEGER PRIMARY KEY AUTOINCREMENT,
  target_name TEXT NOT NULL,
  vpp_stage INTEGER NOT NULL,
  micro_step INTEGER NOT NULL DEFAULT 0,
  UNIQUE (target_name, vpp_stage, micro_step)
);
CREATE TABLE monitoring_metrics (
  metric_id INTEGER PRIMARY KEY AUTOINCREMENT,
  metric_name TEXT UNIQUE NOT NULL
);
CREATE TABLE monitoring_tags (
  tag_id INTEGER PRIMARY KEY AUTOINCREMENT,
  tag_name TEXT NOT NULL,
  category TEXT NOT NULL,
  metric_id INTEGER NOT NULL REFERENCES monitoring_metrics (metric_id),
  UNIQUE (tag_name, category, metric_id)
);
CREATE TABLE tag_target_mapping (
  tag_id INTEGER NOT NULL REFERENCES monitoring_tags (tag_id),
  target_id INTEGER NOT NULL REFERENCES monitoring_targets (target_id),
  PRIMARY KEY (tag_id, target_id)
);
)sql";

// Names of kinds and statistics are constants of Stepwatch and need no quotes.
std::string TablesSql(const std::vector<TrendMetric>& metrics, const std::vector<std::string>& stats) {
  std::string sql = kFixedTables;
  sql +=
      "CREATE TABLE global_stats (min_step INTEGER DEFAULT 0, max_step INTEGER DEFAULT 0, max_rank INTEGER DEFAULT 0";
  for (const TrendMetric& metric : metrics) sql += ", " + metric.name + " TEXT DEFAULT NULL";
  sql +=
      ");\nCREATE TABLE trend_data (rank INTEGER NOT NULL, step INTEGER NOT NULL, "
      "target_id INTEGER NOT NULL REFERENCES monitoring_targets (target_id), "
      "metric_id INTEGER NOT NULL REFERENCES monitoring_metrics (metric_id)";
  for (const std::string& stat : stats) sql += ", " + stat + " REAL DEFAULT NULL";
  return sql + ", PRIMARY KEY (rank, step, target_id, metric_id)) WITHOUT ROWID;";
}

Status FillGlobalStats(const std::vector<TrendMetric>& metrics, const std::vector<std::string>& stats,
                       const TrendBounds& bounds, Database* database) {
  std::string sql = "INSERT INTO global_stats VALUES (?, ?, ?";
  for (size_t i = 0; i < metrics.size(); ++i) sql += ", ?";
  Result<Statement> insert = database->Prepare(sql + ")");
  if (!insert.ok()) return insert.status();
  insert.value().Bind(1, bounds.min_step);
  insert.value().Bind(2, bounds.max_step);
  insert.value().Bind(3, bounds.max_rank);
  for (size_t i = 0; i < metrics.size(); ++i) {
    std::string list;
    for (const std::string& stat : stats)
      if (metrics[i].scan.stats.count(stat) > 0) list += (list.empty() ? "" : ",") + stat;
    insert.value().Bind(static_cast<int>(i) + 4, std::string_view(list));
  }
  return insert.value().Run();
}

Result<TargetIds> FillTargets(const std::vector<TrendMetric>& metrics, Database* database) {
  Result<Statement> insert =
      database->Prepare("INSERT INTO monitoring_targets (target_name, vpp_stage, micro_step) VALUES (?, ?, ?)");
  if (!insert.ok()) return insert.status();
  TargetIds ids;
  for (const TrendMetric& metric : metrics) {
    for (const TrendTarget& target : metric.scan.targets) {
      const auto [id, is_new] = ids.try_emplace(target, 0);
      if (!is_new) continue;
      insert.value().Bind(1, std::string_view(target.name));
      insert.value().Bind(2, target.vpp_stage);
      insert.value().Bind(3, target.micro_step);
      Status inserted = insert.value().Run();
      if (!inserted.ok()) return inserted;
      id->second = database->last_row_id();
    }
  }
  return ids;
}

Status FillMetrics(const std::vector<TrendMetric>& metrics, Database* database) {
  Result<Statement> insert = database->Prepare("INSERT INTO monitoring_metrics (metric_id, metric_name) VALUES (?, ?)");
  if (!insert.ok()) return insert.status();
  for (size_t i = 0; i < metrics.size(); ++i) {
    insert.value().Bind(1, static_cast<int64_t>(i) + 1);
    insert.value().Bind(2, std::string_view(metrics[i].name));
    Status inserted = insert.value().Run();
    if (!inserted.ok()) return inserted;
  }
  return Status();
}

Status FillTags(const std::vector<TrendMetric>& metrics, const TargetIds& ids, Database* database) {
  Result<Statement> insert_tag =
      database->Prepare("INSERT INTO monitoring_tags (tag_name, category, metric_id) VALUES (?, ?, ?)");
  if (!insert_tag.ok()) return insert_tag.status();
  Result<Statement> insert_mapping = database->Prepare("INSERT INTO tag_target_mapping VALUES (?, ?)");
  if (!insert_mapping.ok()) return insert_mapping.status();
  for (size_t i = 0; i < metrics.size(); ++i) {
    std::map<TrendTag, int64_t> tag_ids;
    for (const TrendTarget& target : metrics[i].scan.targets) {
      for (const TrendTag& tag : TagsOf(target.name)) {
        const auto [id, is_new] = tag_ids.try_emplace(tag, 0);
        if (is_new) {
          insert_tag.value().Bind(1, std::string_view(tag.name));
          insert_tag.value().Bind(2, std::string_view(tag.category));
          insert_tag.value().Bind(3, static_cast<int64_t>(i) + 1);
          Status inserted = insert_tag.value().Run();
          if (!inserted.ok()) return inserted;
          id->second = database->last_row_id();
        }
        insert_mapping.value().Bind(1, id->second);
        insert_mapping.value().Bind(2, ids.at(target));
        Status mapped = insert_mapping.value().Run();
        if (!mapped.ok()) return mapped;
      }
    }
  }
  return Status();
}

}  // namespace

Result<TargetIds> MakeTrendTables(const std::vector<TrendMetric>& metrics, const std::vector<std::string>& stats,
                                  const TrendBounds& bounds, Database* database) {
  Status made = database->Execute(TablesSql(metrics, stats));
  if (made.ok()) made = FillMetrics(metrics, database);
  if (made.ok()) made = FillGlobalStats(metrics, stats, bounds, database);
  if (!made.ok()) return made;
  Result<TargetIds> ids = FillTargets(metrics, database);
  if (!ids.ok()) return ids;
  Status tagged = FillTags(metrics, ids.value(), database);
  if (!tagged.ok()) return tagged;
  return ids;
}

std::string InsertTrendSql(const std::vector<std::string>& stats) {
  std::string columns = "rank, step, target_id, metric_id";
  std::string places = "?, ?, ?, ?";
  for (const std::string& stat : stats) {
    columns += ", " + stat;
    places += ", ?";
  }
  return "INSERT OR IGNORE INTO trend_data (" + columns + ") VALUES (" + places + ")";
}

}  // namespace stepwatch::offline
