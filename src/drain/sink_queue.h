// The frames that one sink has not taken yet, with retries, back-off and a limit.
//
// Drain thread only; the time is handed in. Nothing here throws because a sink does. A sink is flushed whenever it has
// taken something.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "src/drain/frame_assembler.h"
#include "src/step/pipeline.h"
#include "stepwatch/sink.h"

namespace stepwatch::drain {

using SteadyTime = std::chrono::steady_clock::time_point;

class SinkQueue {
 public:
  // What became of records since the last call, by plan; and changes of the sink's health.
  struct Outcome {
    PlanId plan_id = 0;
    uint64_t written = 0;
    uint64_t given_up = 0;
  };

  SinkQueue(std::shared_ptr<Sink> sink, size_t backlog_bytes_max);

  // A frame, or the end of its plan (no records), to be passed to the sink in this order.
  void AddFrame(std::shared_ptr<const plan::Plan> plan, AssembledFrame frame);
  void AddEnd(std::shared_ptr<const plan::Plan> plan);

  // Passes on what the sink takes; after a failure waits before it tries again, unless `now_or_never`.
  std::vector<Outcome> Advance(SteadyTime now, bool now_or_never);
  // Counts everything that is left as given up.
  std::vector<Outcome> GiveUp();

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
    std::optional<AssembledFrame> frame;  // unset: the plan ends
    uint64_t written = 0;
    size_t bytes = 0;
    bool tried = false;  // Write has seen the frame
  };

  template <class Call>
  Status Guarded(Call call);
  bool Write(Item* item, std::vector<Outcome>* outcomes);
  void EndPlan(const Item& item);
  void Flush();
  void PopFront();
  void PassOnItems(SteadyTime now, std::vector<Outcome>* outcomes);
  void GiveUpFront(std::vector<Outcome>* outcomes);

  const std::shared_ptr<Sink> sink_;
  const size_t backlog_bytes_max_;
  std::deque<Item> items_;
  size_t backlog_bytes_ = 0;
  std::optional<SteadyTime> retry_at_;
  std::chrono::milliseconds back_off_{0};
  std::optional<Status> failure_;
  bool flush_due_ = false;
};

}  // namespace stepwatch::drain
