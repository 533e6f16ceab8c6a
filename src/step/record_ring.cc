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

void RecordRing::Push(const PlanBegin& begin) {
  STEPWATCH_CHECK(queue_.TryPush(begin));
}
void RecordRing::Push(const SegmentCut& cut) {
  STEPWATCH_CHECK(queue_.TryPush(cut));
}
void RecordRing::Push(const PlanEnd& end) {
  STEPWATCH_CHECK(queue_.TryPush(end));
}

}  // namespace stepwatch::step
