// The frames that one sink has not taken yet, with retries, back-off and a limit.
//
// Drain thread only; the time is handed in. Nothing here throws because a sink does, or because memory is out, except
// MakeRoom. A sink is flushed whenever it has taken something. Frames are shared by all sinks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "src/drain/frame_assembler.h"
#include "src/drain/prepared_queue.h"
#include "src/drain/status_board.h"
#include "src/step/pipeline.h"
#include "stepwatch/sink.h"

namespace stepwatch::drain {

using SteadyTime = std::chrono::steady_clock::time_point;

class SinkQueue {
 public:
  // Is told what became of records of a plan.
  using Credit = std::function<void(PlanId plan, uint64_t written, uint64_t discarded)>;
  // Is told that the sink has closed a segment.
  using OnSegment = std::function<void(SegmentBegun begun)>;
  // Any may be empty, and none may throw.
  struct Callbacks {
    Credit credit;
    OnSegment on_segment;
  };

  SinkQueue(std::shared_ptr<Sink> sink, size_t backlog_bytes_max, Callbacks callbacks = {});

  // The next call of AddFrame or AddEnd allocates nothing. Throws std::bad_alloc.
  void MakeRoom() { items_.MakeRoom(); }
  // A frame, or the end of its plan (no records), to be passed to the sink in this order.
  void AddFrame(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<const AssembledFrame> frame);
  void AddEnd(std::shared_ptr<const plan::Plan> plan);

  // Passes on what the sink takes; after a failure waits before it tries again, unless `now_or_never`.
  void Advance(SteadyTime now, bool now_or_never) noexcept;
  // Discards everything that is left, and counts it.
  void DiscardAll() noexcept;

  bool empty() const { return items_.empty(); }
  // A frame of this plan is still to be taken.
  bool HoldsFrameOf(PlanId plan) const;
  // When Advance should be called again although nothing new came; unset: no need.
  std::optional<SteadyTime> retry_at() const { return items_.empty() ? std::nullopt : retry_at_; }
  // Set while the sink fails: the last error. It lasts until a frame is written whole.
  const std::optional<Status>& failure() const { return failure_; }

 private:
  struct Item {
    std::shared_ptr<const plan::Plan> plan;
    std::shared_ptr<const AssembledFrame> frame;  // null: the plan ends
    uint64_t written = 0;
    size_t bytes = 0;
    bool tried = false;  // Write has seen the frame
  };

  template <class Call>
  Status Guarded(Call call) noexcept;
  void Add(Item item);
  void Tell(const Item& item, uint64_t written, uint64_t discarded) noexcept;
  bool Write(Item* item) noexcept;
  void EndPlan(const Item& item) noexcept;
  void BeginSegmentBehind(const Item& item) noexcept;
  void Flush() noexcept;
  void PopFront() noexcept;
  void PassOnItems(SteadyTime now) noexcept;
  void DiscardFront() noexcept;

  const std::shared_ptr<Sink> sink_;
  const size_t backlog_bytes_max_;
  const Callbacks callbacks_;
  PreparedQueue<Item> items_;
  size_t backlog_bytes_ = 0;
  std::optional<SteadyTime> retry_at_;
  std::chrono::milliseconds back_off_{0};
  std::optional<Status> failure_;
  bool flush_due_ = false;
  bool hopeless_ = false;  // the sink has said that it can never take the frame in front
};

}  // namespace stepwatch::drain
