// Assembles the entries of one plan's ring into step frames, in step order.
//
// Pure bookkeeping, drain thread only. After MakeRoom the next entry is added without allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/step/heatmap_queue.h"
#include "src/step/record_ring.h"
#include "stepwatch/heatmap.h"
#include "stepwatch/record.h"

namespace stepwatch::drain {

struct AssembledFrame {
  int64_t step = 0;
  std::vector<Record> records;
  std::vector<uint32_t> pending{};             // positions of the records without their numbers, ascending
  std::vector<step::GraphStep> graph_steps{};  // may produce further records
  std::vector<HeatmapColumn> columns{};
  int64_t next_segment = 0;  // the segment that begins after this frame; 0: none

  bool empty() const { return records.empty() && graph_steps.empty() && columns.empty() && next_segment == 0; }
  // True for a frame that only carries the beginning of the next segment.
  bool has_nothing_to_write() const { return records.empty() && columns.empty(); }
};

class FrameAssembler {
 public:
  // Allocates for one entry and the columns of its step. Throws std::bad_alloc without effect.
  void MakeRoom();
  // Adds the next entry; returns the frame that it completes, if that has a record, graph step or column, or is the
  // last one of a segment.
  std::optional<AssembledFrame> Add(const step::RingEntry& entry);
  // The same for columns, which precede the step's FrameEnd.
  std::optional<AssembledFrame> Add(step::HeatmapStep step);

  const std::optional<step::PlanBegin>& begin() const { return begin_; }
  const std::optional<step::PlanEnd>& end() const { return end_; }
  uint64_t late() const { return late_; }  // records of a step whose frame was already closed
  // Records that markers of their steps announced but that never arrived, without those of lost markers.
  uint64_t missing() const { return missing_; }
  // The frame of the step that is still being assembled.
  AssembledFrame& open() { return open_; }

 private:
  std::optional<AssembledFrame> Close();
  template <class T>
  bool IsLate(const T& entry, std::optional<AssembledFrame>* done);
  std::optional<AssembledFrame> AddRecord(const Record& record);
  std::optional<AssembledFrame> AddGraphStep(const step::GraphStep& step);
  std::optional<AssembledFrame> AddCut(const step::SegmentCut& cut);

  std::optional<step::PlanBegin> begin_;
  std::optional<step::PlanEnd> end_;
  AssembledFrame open_;
  AssembledFrame spare_;       // the next frame, with room for one entry
  size_t closed_records_ = 1;  // size of the last closed frame: steps are similar
  int64_t closed_step_ = INT64_MIN;
  uint64_t late_ = 0;
  uint64_t missing_ = 0;
};

}  // namespace stepwatch::drain
