// Carries records and markers from the step thread (and autograd threads inside a step) to the drain thread.
//
// Any number of threads may push, exactly one pops. Neither waits, locks or allocates. A full ring rejects a record and
// the caller counts it: losing a sample is cheaper than delaying a step. The last places are reserved for markers, so
// that the begin and the end of a plan always fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "kernels/device_engine.h"
#include "src/base/bounded_queue.h"
#include "src/step/step_cost.h"
#include "stepwatch/record.h"

namespace stepwatch::step {

enum class EndReason : uint8_t {
  kTimes,     // collect_times steps were collected
  kStopped,   // dynamic_on false, or collect_times 0
  kReplaced,  // another plan took over
  kClosed,    // the monitor was closed
  kLimited,   // a limit of Options::limits was reached
};
const char* EndReasonText(EndReason reason);  // "collect_times reached", ...

struct PlanBegin {
  int64_t first_step = 0;  // the first step of the window, collected or not
};
struct FrameEnd {
  int64_t step = 0;
  uint64_t produced = 0;  // records of this step, including those that found the ring full
  StepCost cost{};        // since the previous frame
};
static_assert(sizeof(FrameEnd) <= sizeof(Record), "a FrameEnd must not make the cells of the ring larger");
// Captured graphs may have measured in this step; the drain finds out once the device has ended the step. Precedes the
// step's FrameEnd, which does not count its records.
struct GraphStep {
  int64_t step = 0;
  kernels::DeviceStep on;
  uint8_t flags = 0;          // of its records
  GroupSet due = kAllGroups;  // the groups collected in the step
};
// Closes the segment at this step; later records go to files of their own.
struct SegmentCut {
  int64_t last_step = 0;
  int64_t segment = 0;  // the new segment
};
// The plan is paused or resumed at `step`.
struct PauseMark {
  int64_t step = 0;
  bool paused = false;
};
struct PlanEnd {
  EndReason reason = EndReason::kClosed;
  int64_t last_step = 0;
  int64_t collected = 0;
};
using RingEntry = std::variant<Record, PlanBegin, FrameEnd, PlanEnd, GraphStep, SegmentCut, PauseMark>;

class RecordRing {
 public:
  // Has room for at least `records` records and the markers between them; rounded up to a power of two.
  explicit RecordRing(size_t records) : queue_(CapacityFor(records)) {}

  // Leaves `kept` more places free for other records.
  [[nodiscard]] bool TryPush(const Record& record, size_t kept = 0) {
    return queue_.TryPush(record, kReservedForFrames + kept);
  }
  // Fails when the drain is stuck for long: the drain then closes the frame at the next record.
  [[nodiscard]] bool TryPush(const FrameEnd& end) { return queue_.TryPush(end, kReservedForPlan); }
  [[nodiscard]] bool TryPush(const GraphStep& step) { return queue_.TryPush(step, kReservedForPlan); }
  // Fails likewise: report it at a later boundary.
  [[nodiscard]] bool TryPush(const PauseMark& mark) { return queue_.TryPush(mark, kReservedForPlan); }
  // At most one of each is in the ring.
  void Push(const PlanBegin& begin);
  void Push(const SegmentCut& cut);
  void Push(const PlanEnd& end);

  // --- drain thread ---
  // Returns false if the ring is empty.
  bool Pop(RingEntry* entry) { return queue_.Pop(entry); }
  // True if Pop would fail.
  bool Empty() const { return queue_.Empty(); }

  size_t capacity() const { return queue_.capacity(); }

  static size_t EntryBytes() { return base::BoundedQueue<RingEntry>::EntryBytes(); }
  // The places of a ring for `records` records, and the records of the largest ring with `places` places.
  static size_t CapacityFor(size_t records);
  static size_t RecordsIn(size_t places);

 private:
  static constexpr size_t kReservedForPlan = 3;  // one begin, one cut, one end
  static constexpr size_t kReservedForFrames = 32;
  static constexpr size_t kRecordsMin = 64;

  base::BoundedQueue<RingEntry> queue_;
};

}  // namespace stepwatch::step
