// The closed step frames of one plan on their way to the sinks: each waits for the numbers that are still on their way
// from a device, and for the frames before it.
//
// Drain thread only; the time is handed in.
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

// From the end of a step: what has not arrived by then is dropped as late.
inline constexpr std::chrono::seconds kResultsDueAfter{5};

class WaitingFrames {
 public:
  using Time = std::chrono::steady_clock::time_point;

  WaitingFrames(stats::Engine* engine, std::shared_ptr<const step::Pipeline> pipeline)
      : engine_(engine), pipeline_(std::move(pipeline)) {}

  // The next `count` calls of Add allocate nothing. Throws std::bad_alloc.
  void MakeRoom(size_t count);
  // Without room the frame is discarded, and its records are counted as late.
  void Add(AssembledFrame frame, Time now) noexcept;
  // Fetches the numbers that have arrived, for these frames and for the one that is still open.
  void Fetch(AssembledFrame* open) noexcept;
  // The frame of the earliest step if nothing of it is under way any more, otherwise null; what is overdue (or all that
  // is under way, if `last_call`) is dropped. Frames in which nothing is left are skipped.
  AssembledFrame* Ready(Time now, bool last_call) noexcept;
  // The frame that Ready has given leaves.
  std::shared_ptr<const AssembledFrame> Take() noexcept;
  // The same, but its records are counted as late.
  void DiscardReady() noexcept;
  // Records, and what a graph step may have given, that never got here.
  void CountLost(const step::RingEntry& entry) noexcept;

  // In step order.
  template <class Visitor>
  void ForEach(const Visitor& visitor) const {
    for (const Waiting& waiting : frames_) visitor(*waiting.frame);
  }

  bool empty() const { return frames_.empty(); }
  bool pending() const { return pending_ > 0; }    // numbers are under way
  size_t records() const { return records_; }      // that wait here
  uint64_t replayed() const { return replayed_; }  // records produced by captured graphs, those dropped included
  uint64_t late() const { return late_; }          // records dropped because their numbers did not come in time

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
