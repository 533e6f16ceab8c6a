// The closed step frames of one plan on their way to the sinks: each waits for its pending results from a device, and
// for the frames before it.
//
// Drain thread only; the time is a parameter.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/drain/frame_assembler.h"
#include "src/drain/prepared_queue.h"
#include "src/stats/engine.h"
#include "src/step/pipeline.h"

namespace stepwatch::drain {

// Time after the end of a step at which missing results are dropped as late.
inline constexpr std::chrono::seconds kResultsDueAfter{5};

class WaitingFrames {
 public:
  using Time = std::chrono::steady_clock::time_point;

  WaitingFrames(stats::Engine* engine, std::shared_ptr<const step::Pipeline> pipeline)
      : engine_(engine), pipeline_(std::move(pipeline)) {}

  // After this, `count` calls of Add do not allocate. Throws std::bad_alloc.
  void MakeRoom(size_t count);
  // Without room, discards the frame and counts its records as late.
  void Add(AssembledFrame frame, Time now) noexcept;
  // Fetches the available results, for these frames and for the open one.
  void Fetch(AssembledFrame* open) noexcept;
  // The frame of the earliest step if it has no pending results, otherwise null; overdue results (all pending ones, if
  // `last_call`) are dropped. Frames that become empty are skipped.
  AssembledFrame* Ready(Time now, bool last_call) noexcept;
  // Removes the frame that Ready returned.
  std::shared_ptr<const AssembledFrame> Take() noexcept;
  // The same, but counts its records as late.
  void DiscardReady() noexcept;
  // Counts records, and possible rows of a graph step, that never got here.
  void CountLost(const step::RingEntry& entry) noexcept;

  // In step order.
  template <class Visitor>
  void ForEach(const Visitor& visitor) const {
    for (const Waiting& waiting : frames_) visitor(*waiting.frame);
  }

  bool empty() const { return frames_.empty(); }
  bool pending() const { return pending_ > 0; }    // results are pending
  size_t records() const { return records_; }      // waiting here
  uint64_t replayed() const { return replayed_; }  // records produced by captured graphs, including dropped ones
  uint64_t late() const { return late_; }          // records dropped because their results were late

 private:
  struct Waiting {
    std::shared_ptr<AssembledFrame> frame;
    Time due;
    size_t counted = 0;  // in records_
  };

  void Fetch(AssembledFrame* frame, size_t* still_pending) noexcept;
  void FetchGraphSteps(Waiting* waiting) noexcept;
  bool FetchGraphStep(const step::GraphStep& step, Waiting* waiting);
  void Discard(AssembledFrame* frame) noexcept;
  void DiscardPending(AssembledFrame* frame) noexcept;
  void CountLostRows(uint64_t count) noexcept;

  stats::Engine* const engine_;
  const std::shared_ptr<const step::Pipeline> pipeline_;
  PreparedQueue<Waiting> frames_;
  size_t pending_ = 0;
  size_t records_ = 0;
  uint64_t late_ = 0;
  uint64_t replayed_ = 0;
};

}  // namespace stepwatch::drain
