// Destination of records: receives values, writes bytes, returns a Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stepwatch/heatmap.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch {

// All records of one step of one plan, in order of production.
struct StepFrame {
  int64_t step = 0;
  const Record* records = nullptr;
  size_t count = 0;  // 0 only if there are columns
  // Columns of heat maps in this step. They are not records: WriteResult and the ledger do not count them.
  const HeatmapColumn* columns = nullptr;
  size_t column_count = 0;
};

struct WriteResult {
  Status status;
  // Records of the frame that reached their file in this call; over all calls with one frame at most its count. With an
  // Ok status all records of the frame are written.
  size_t written = 0;
};

// Drain thread, one call at a time, frames in step order within a plan. A sink may block (training does not wait for
// it) but should end a stuck operation and return an error: the drain then keeps the frame, backs off and calls Write
// again with the same frame. The sink must not write rows again that already reached their file.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual WriteResult Write(const RecordLayout& layout, const StepFrame& frame) = 0;
  // The frame of the last failed Write will not come again: the drain has discarded the rest of it.
  virtual void Discard(const RecordLayout& layout, const StepFrame& frame) { (void)layout, (void)frame; }
  // No more frames of this plan will come. Files may be closed.
  virtual void EndPlan(const RecordLayout& layout) { (void)layout; }
  // Closes the files of all records accepted so far; the sink must not change them again, and later records go to files
  // with other names. `segment` counts within the run: 2 when the first segment ends, 3 for the next. Returns the paths
  // of the files that were open.
  virtual std::vector<std::string> BeginSegment(int64_t segment) { return (void)segment, std::vector<std::string>(); }
  // Makes all records accepted so far visible to readers.
  virtual Status Flush() { return Status(); }
};

}  // namespace stepwatch
