#include "src/drain/frame_assembler.h"

#include <algorithm>
#include <utility>

namespace stepwatch::drain {

namespace {

template <class T>
void MakeRoomIn(std::vector<T>* items, size_t expected) {
  if (items->size() == items->capacity()) items->reserve(std::max({size_t{1}, 2 * items->size(), expected}));
}

}  // namespace

void FrameAssembler::MakeRoom() {
  // Even an empty frame needs one place: it may be closed with only columns in it.
  MakeRoomIn(&open_.records, open_.records.empty() ? 1 : closed_records_);
  MakeRoomIn(&open_.pending, 1);
  MakeRoomIn(&open_.graph_steps, 1);
  MakeRoomIn(&spare_.records, 1);
  MakeRoomIn(&spare_.pending, 1);
  MakeRoomIn(&spare_.graph_steps, 1);
}

std::optional<AssembledFrame> FrameAssembler::Close() {
  if (open_.empty()) return std::nullopt;
  closed_step_ = open_.step;
  closed_records_ = open_.records.size();
  AssembledFrame closed = std::exchange(open_, std::exchange(spare_, AssembledFrame{}));
  return closed;
}

// Otherwise the entry belongs to the open frame. The marker of an earlier step may have found the ring full, so the
// first entry of a later step also closes the frame.
template <class T>
bool FrameAssembler::IsLate(const T& entry, std::optional<AssembledFrame>* done) {
  if (entry.step <= closed_step_ || end_) return true;
  if (!open_.empty() && entry.step > open_.step) *done = Close();
  if (open_.empty()) open_.step = entry.step;
  return entry.step < open_.step;
}

std::optional<AssembledFrame> FrameAssembler::AddRecord(const Record& record) {
  std::optional<AssembledFrame> done;
  if (IsLate(record, &done)) {
    ++late_;
    return done;
  }
  if (record.pending()) open_.pending.push_back(static_cast<uint32_t>(open_.records.size()));
  open_.records.push_back(record);
  return done;
}

std::optional<AssembledFrame> FrameAssembler::AddGraphStep(const step::GraphStep& step) {
  std::optional<AssembledFrame> done;
  if (!IsLate(step, &done)) open_.graph_steps.push_back(step);
  return done;
}

std::optional<AssembledFrame> FrameAssembler::Add(step::HeatmapStep step) {
  std::optional<AssembledFrame> done;
  if (!IsLate(step, &done)) open_.columns = std::move(step.columns);
  return done;
}

// Closes the previous step in any case; no more of its records follow.
std::optional<AssembledFrame> FrameAssembler::AddCut(const step::SegmentCut& cut) {
  if (open_.empty()) open_.step = cut.last_step;
  open_.next_segment = cut.segment;
  return Close();
}

std::optional<AssembledFrame> FrameAssembler::Add(const step::RingEntry& entry) {
  if (const auto* record = std::get_if<Record>(&entry)) return AddRecord(*record);
  if (const auto* step = std::get_if<step::GraphStep>(&entry)) return AddGraphStep(*step);
  if (const auto* begin = std::get_if<step::PlanBegin>(&entry)) {
    begin_ = *begin;
    return std::nullopt;
  }
  if (const auto* frame_end = std::get_if<step::FrameEnd>(&entry)) {
    const uint64_t arrived = open_.step == frame_end->step ? open_.records.size() : 0;
    missing_ += frame_end->produced - std::min(frame_end->produced, arrived);
    std::optional<AssembledFrame> done = Close();
    closed_step_ = std::max(closed_step_, frame_end->step);
    return done;
  }
  if (const auto* cut = std::get_if<step::SegmentCut>(&entry)) return AddCut(*cut);
  if (std::holds_alternative<step::PauseMark>(entry)) return std::nullopt;
  end_ = std::get<step::PlanEnd>(entry);
  return Close();
}

}  // namespace stepwatch::drain
