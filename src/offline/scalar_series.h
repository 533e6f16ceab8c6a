// The rows of one kind of one rank as scalar events: sorted by step, each tag once a step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/offline/metric_file.h"
#include "src/offline/workers.h"
#include "src/sinks/event_record.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// "vp0:fc.input:micro1"; with a statistic: "vp0:fc.input:micro1/norm".
std::string TagOf(const MetricRow& row, bool with_micro_step);

// Collects the rows of files with overlapping steps, one call of Add for each file. Not thread-safe.
class ScalarSeries {
 public:
  // Adds the unread rest of `file`. kInvalid for a row whose step is outside the file's range, or whose tag and step
  // are repeated.
  Status Add(const MetricFileEntry& entry, MetricFile* file, WorkState* state);

  // Calls `write(event)` for each step in order. Stops at its first error and returns it.
  template <class Write>
  Status Emit(double wall_time, Write write);

 private:
  struct Row {
    int64_t step = 0;
    uint32_t tag = 0;
    uint32_t file = 0;
    size_t values = 0;  // first index in values_
    int64_t line = 0;
  };
  struct File {
    std::string path;
    std::vector<std::string> stats;
  };

  Status SortRows();
  void AppendScalars(const Row& row, std::vector<sinks::Scalar>* scalars) const;

  std::vector<Row> rows_;
  std::vector<double> values_;
  std::vector<File> files_;
  std::vector<std::string> tags_;
  std::unordered_map<std::string, uint32_t> tag_numbers_;
};

template <class Write>
Status ScalarSeries::Emit(double wall_time, Write write) {
  Status sorted = SortRows();
  if (!sorted.ok()) return sorted;
  sinks::SummaryEvent event;
  event.wall_time = wall_time;
  for (size_t i = 0; i < rows_.size(); ++i) {
    event.step = rows_[i].step;
    AppendScalars(rows_[i], &event.scalars);
    // Events have a few hundred scalars at most: a reader holds one at a time.
    const bool last = i + 1 == rows_.size() || rows_[i + 1].step != event.step || event.scalars.size() >= 512;
    if (!last) continue;
    Status written = write(event);
    if (!written.ok()) return written;
    event.scalars.clear();
  }
  return Status();
}

}  // namespace stepwatch::offline
