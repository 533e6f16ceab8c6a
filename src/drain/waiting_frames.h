// The closed step frames of one plan on their way to the sinks: each waits for the numbers that are still on their way
// from a device, and for the frames before it.
//
// Drain thread only; the time is handed in.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "src/drain/frame_assembler.h"
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

  void Add(AssembledFrame frame, Time now);
  // Fetches the numbers that have arrived, for these frames and for the one that is still open.
  void Fetch(AssembledFrame* open);
  // The frame of the earliest step if nothing of it is under way any more; what is overdue (or all that is under way,
  // if `give_up`) is dropped. Frames in which nothing is left are passed over.
  std::optional<AssembledFrame> Next(Time now, bool give_up);

  // In step order.
  template <class Visitor>
  void ForEach(const Visitor& visitor) const {
    for (const Waiting& waiting : frames_) visitor(waiting.frame);
  }

  bool empty() const { return frames_.empty(); }
  bool pending() const { return pending_ > 0; }    // numbers are under way
  size_t records() const { return records_; }      // that wait here
  uint64_t replayed() const { return replayed_; }  // records produced by captured graphs, those dropped included
  uint64_t late() const { return late_; }          // records dropped because their numbers did not come in time

 private:
  struct Waiting {
    AssembledFrame frame;
    Time due;
    size_t counted = 0;  // in records_
  };

  void Fetch(AssembledFrame* frame, size_t* still_pending);
  void FetchGraphSteps(Waiting* waiting);
  void DropPending(AssembledFrame* frame);
  void CountLost(uint64_t count);

  stats::Engine* const engine_;
  const std::shared_ptr<const step::Pipeline> pipeline_;
  std::deque<Waiting> frames_;
  size_t pending_ = 0;
  size_t records_ = 0;
  uint64_t late_ = 0;
  uint64_t replayed_ = 0;
};

}  // namespace stepwatch::drain
