// The metric files of a run: their kinds, their names, and their rows as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/offline/csv_reader.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// The parsed name of a file in a run directory: "actv_0-4.csv", "actv_0-4_p2.csv" after an edit that changed the
// columns, "actv_0-4_s2.csv" of the second segment.
struct MetricFileName {
  std::string kind;
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t segment = 1;
};

// nullopt if this is not the name of a metric file of one of `kinds`.
std::optional<MetricFileName> ParseMetricFileName(std::string_view name, std::span<const std::string> kinds);

struct MetricFileEntry {
  MetricFileName name;
  std::string path;
  uint64_t bytes = 0;
};

struct MetricFileList {
  std::vector<MetricFileEntry> files;  // by first step, then segment, then name
  std::vector<std::string> notes;      // files that look like metrics but are unreadable
};
Result<MetricFileList> ListMetricFiles(const std::string& directory, std::span<const std::string> kinds,
                                       base::FileSystem& files = base::FileSystem::Real());

struct MetricRow {
  int64_t vpp_stage = 0;
  std::string_view name;  // valid until the next row
  int64_t step = 0;
  int64_t micro_step = 0;      // 0 in files without the column
  std::vector<double> values;  // one for each of stats(); NaN for `nan` and empty cells, 0 and 1 for booleans
};

// Reads the rows of one file; malformed ones are skipped and counted. Not thread-safe.
class MetricFile {
 public:
  // `wanted` names the statistics to read, in the order of stats(); empty: every column except position, shape, dtype
  // and plan_id, in the order of the file.
  static Result<MetricFile> Open(const std::string& path, std::span<const std::string> wanted);

  // Returns false at the end.
  Result<bool> Next(MetricRow* row);

  const std::vector<std::string>& stats() const { return stats_; }
  bool has_micro_step() const { return micro_step_column_ >= 0; }
  int64_t line() const { return reader_.line(); }
  uint64_t bytes_read() const { return reader_.bytes_read(); }
  uint64_t rows() const { return rows_; }
  uint64_t rows_skipped() const { return rows_skipped_; }
  // A message if rows were skipped or the file ends inside one; otherwise empty.
  std::string Note() const;

 private:
  explicit MetricFile(CsvReader reader) : reader_(std::move(reader)) {}
  Status ReadHeader(std::span<const std::string> wanted);
  // Empty, or the fault of the cells.
  std::string Parse(MetricRow* row) const;

  CsvReader reader_;
  std::vector<std::string_view> cells_;
  std::vector<std::string> stats_;
  std::vector<size_t> stat_columns_;
  size_t column_count_ = 0;
  size_t vpp_stage_column_ = 0;
  size_t name_column_ = 0;
  size_t step_column_ = 0;
  int micro_step_column_ = -1;  // -1: none
  uint64_t rows_ = 0;
  uint64_t rows_skipped_ = 0;
  std::string first_skipped_;
};

}  // namespace stepwatch::offline
