// Where records go: values in, bytes out, a Status back.
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

// All records of one step of one plan, in the order in which they were produced.
struct StepFrame {
  int64_t step = 0;
  const Record* records = nullptr;
  size_t count = 0;  // 0 only if there are columns
  // What the step adds to heat maps. No records: neither WriteResult nor the ledger counts them.
  const HeatmapColumn* columns = nullptr;
  size_t column_count = 0;
};

struct WriteResult {
  Status status;
  // Records of the frame that reached their file by this call; over all calls with one frame at most its count. With an
  // Ok status all of them did.
  size_t written = 0;
};

// All calls come from the drain thread, one at a time, frames in step order within a plan. A sink may block (it is not
// the training thread that waits) but should end a stuck operation and return an error: the drain keeps the
// frame, backs off and calls Write again with the same frame. Rows of it that already reached their file must then not
// be written twice.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual WriteResult Write(const RecordLayout& layout, const StepFrame& frame) = 0;
  // The frame of the last failed Write will not come again: the drain has discarded what is left of it.
  virtual void Discard(const RecordLayout& layout, const StepFrame& frame) { (void)layout, (void)frame; }
  // No more frames of this plan will come. Files may be closed.
  virtual void EndPlan(const RecordLayout& layout) { (void)layout; }
  // What was accepted so far is to be left alone from here on: its files are closed, and what comes goes to files of
  // other names. `segment` counts within the run: 2 when the first segment ends, 3 for the next. Returns the paths of
  // the files that were open.
  virtual std::vector<std::string> BeginSegment(int64_t segment) { return (void)segment, std::vector<std::string>(); }
  // Makes everything accepted so far visible to readers.
  virtual Status Flush() { return Status(); }
};

}  // namespace stepwatch
