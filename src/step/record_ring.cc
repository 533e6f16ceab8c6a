#include "src/step/record_ring.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"

namespace stepwatch::step {

const char* EndReasonText(EndReason reason) {
  switch (reason) {
    case EndReason::kTimes: return "collect_times reached";
    case EndReason::kStopped: return "stopped by the config";
    case EndReason::kReplaced: return "replaced by a newer plan";
    case EndReason::kClosed: return "monitor closed";
    case EndReason::kLimited: return "a limit of the run was reached";
  }
  return "";
}

size_t RecordRing::CapacityFor(size_t records) {
  return std::bit_ceil(std::max(records, kRecordsMin) + 2 * kReservedForFrames);
}

size_t RecordRing::RecordsIn(size_t places) {
  return std::bit_floor(std::max(places, CapacityFor(kRecordsMin))) - 2 * kReservedForFrames;
}

RecordRing::RecordRing(size_t records) : mask_(CapacityFor(records) - 1), cells_(new Cell[mask_ + 1]) {
  for (size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
}

template <class T>
bool RecordRing::Push(const T& payload, size_t keep_free) {
  uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    // head_ only grows, so a stale value errs on the side of "full".
    const uint64_t used = position - head_.load(std::memory_order_acquire);
    if (static_cast<int64_t>(used) >= 0 && used + keep_free > mask_) return false;
    if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) break;
  }
  Cell& cell = cells_[position & mask_];
  // Free since head_ has passed it: the reader stores the sequence before it advances head_.
  cell.entry = payload;
  cell.sequence.store(position + 1, std::memory_order_release);
  return true;
}

void RecordRing::Push(const PlanBegin& begin) {
  STEPWATCH_CHECK(Push(begin, 0));
}
void RecordRing::Push(const SegmentCut& cut) {
  STEPWATCH_CHECK(Push(cut, 0));
}
void RecordRing::Push(const PlanEnd& end) {
  STEPWATCH_CHECK(Push(end, 0));
}
template bool RecordRing::Push(const Record&, size_t);
template bool RecordRing::Push(const FrameEnd&, size_t);
template bool RecordRing::Push(const GraphStep&, size_t);
template bool RecordRing::Push(const PauseMark&, size_t);

bool RecordRing::Empty() const {
  const uint64_t position = head_.load(std::memory_order_relaxed);
  return cells_[position & mask_].sequence.load(std::memory_order_acquire) != position + 1;
}

bool RecordRing::Pop(RingEntry* entry) {
  const uint64_t position = head_.load(std::memory_order_relaxed);
  Cell& cell = cells_[position & mask_];
  if (cell.sequence.load(std::memory_order_acquire) != position + 1) return false;
  *entry = cell.entry;
  cell.sequence.store(position + mask_ + 1, std::memory_order_release);
  head_.store(position + 1, std::memory_order_release);
  return true;
}

}  // namespace stepwatch::step
