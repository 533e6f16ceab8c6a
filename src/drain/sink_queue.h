// The frames that one sink has not accepted yet, with retries, back-off and a limit.
//
// Drain thread only; the time is a parameter. Exceptions of a sink are caught, and only MakeRoom throws when memory
// runs out. A sink is flushed after each time it accepted data. Frames are shared by all sinks.
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
  // Called with the fate of records of a plan.
  using Credit = std::function<void(PlanId plan, uint64_t written, uint64_t discarded)>;
  // Called when the sink has closed a segment.
  using OnSegment = std::function<void(SegmentBegun begun)>;
  // Each may be empty, and must not throw.
  struct Callbacks {
    Credit credit;
    OnSegment on_segment;
  };

  SinkQueue(std::shared_ptr<Sink> sink, size_t backlog_bytes_max, Callbacks callbacks = {});

  // After this, the next call of AddFrame or AddEnd does not allocate. Throws std::bad_alloc.
  void MakeRoom() { items_.MakeRoom(); }
  // Queues a frame, or the end of its plan (no records); the sink sees them in this order.
  void AddFrame(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<const AssembledFrame> frame);
  void AddEnd(std::shared_ptr<const plan::Plan> plan);

  // Passes on what the sink accepts; after a failure waits before retrying, unless `now_or_never`.
  void Advance(SteadyTime now, bool now_or_never) noexcept;
  // Discards and counts the rest.
  void DiscardAll() noexcept;

  bool empty() const { return items_.empty(); }
  // True if a frame of this plan is still queued.
  bool HoldsFrameOf(PlanId plan) const;
  // The time for the next call of Advance even without new items; nullopt: not needed.
  std::optional<SteadyTime> retry_at() const { return items_.empty() ? std::nullopt : retry_at_; }
  // The last error while the sink fails, until a frame is written completely.
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
  Status CatchAsStatus(Call call) noexcept;
  void Add(Item item);
  void CreditPlan(const Item& item, uint64_t written, uint64_t discarded) noexcept;
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
  bool is_unwritable_ = false;  // the sink reported that it can never accept the front frame
};

}  // namespace stepwatch::drain
