// The records of one plan between its ring and the sinks: assembled into frames, held until pending results arrive,
// merged, counted.
//
// Drain thread only. The account is exact in spite of any failure: records that cannot be kept for lack of memory are
// counted.
#pragma once

#include <boost/intrusive/slist.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/drain/frame_assembler.h"
#include "src/drain/waiting_frames.h"
#include "src/stats/engine.h"
#include "src/step/pending_plan.h"
#include "src/step/pipeline.h"

namespace stepwatch::drain {

class PlanStream final : public step::BegunPlan, public boost::intrusive::slist_base_hook<> {
 public:
  using Time = WaitingFrames::Time;

  // `engine` must outlive the stream.
  PlanStream(stats::Engine* engine, std::shared_ptr<step::Pipeline> pipeline)
      : pipeline_(std::move(pipeline)), engine_(engine), waiting_(engine, pipeline_) {}

  // Takes all entries out of the ring. Returns false if the limit of pending results is reached, so that the ring, and
  // then its producers, are slowed down. An entry is taken when there is room for it; if memory runs out, throws
  // std::bad_alloc or, in the last call, counts the rest.
  bool EmptyRing(size_t waiting_bytes_max, Time now, bool last_call);
  // Fetches the results that the device has completed.
  void Fetch() noexcept { waiting_.Fetch(&assembler_.open()); }
  // The next frame if it is complete, with repeated records merged. If memory runs out, throws std::bad_alloc or, in
  // the last call, discards and counts the frame.
  const AssembledFrame* Ready(Time now, bool last_call);
  // Removes the frame that Ready returned.
  std::shared_ptr<const AssembledFrame> Take() noexcept { return waiting_.Take(); }
  void DiscardReady() noexcept { waiting_.DiscardReady(); }
  // Accounts for records of removed frames: the sinks have written or discarded them.
  void Credit(uint64_t written, uint64_t discarded) noexcept;

  const std::shared_ptr<step::Pipeline>& pipeline() const { return pipeline_; }
  const std::shared_ptr<const plan::Plan>& plan() const { return pipeline_->plan; }
  PlanId id() const { return plan()->layout.plan_id; }
  // True if its first entry is out of the ring.
  bool begun() const { return assembler_.begin().has_value(); }
  // True if its last entry is out of the ring.
  bool finished() const { return assembler_.end().has_value(); }
  // True if, in addition, no frame waits here.
  bool exhausted() const { return finished() && waiting_.empty(); }
  bool has_backlog() const { return !waiting_.empty() || !pipeline_->ring.Empty(); }
  bool pending() const { return waiting_.pending(); }
  // Cost of measuring since the last call; nullopt: no collected step has ended.
  std::optional<step::StepCost> TakeCost() noexcept { return std::exchange(cost_, std::nullopt); }
  const step::PlanBegin& begin() const { return *assembler_.begin(); }
  const step::PlanEnd& end() const { return *assembler_.end(); }
  // Pauses and resumptions since the last call.
  std::vector<step::PauseMark> TakePauseMarks() noexcept;
  // True if records that its steps announced are missing from the account.
  bool misses_records(const Ledger& account) const;
  // Final when it balances and the first sink holds no frame of the plan.
  Ledger account() const noexcept;

  // Complete frames that were not removed, then the open one.
  template <class Visitor>
  void ForEach(const Visitor& visitor) {
    waiting_.ForEach(visitor);
    visitor(assembler_.open());
  }

  // Facts that the drain has already reported.
  bool reported_begin = false;
  bool reported_finish = false;
  bool reported_end = false;  // to the sinks
  bool reported_cost = false;
  bool reported_loss = false;

 private:
  void MakeRoom();
  bool TryToMakeRoom() noexcept;
  void TakeEntry(const step::RingEntry& entry, Time now) noexcept;
  void TakeColumns(int64_t step, Time now) noexcept;

  const std::shared_ptr<step::Pipeline> pipeline_;
  stats::Engine* const engine_;
  FrameAssembler assembler_;
  WaitingFrames waiting_;
  std::vector<step::PauseMark> pause_marks_;
  std::optional<step::StepCost> cost_;
  uint64_t written_ = 0;
  uint64_t discarded_ = 0;
  uint64_t merged_ = 0;  // records merged into other rows
};

}  // namespace stepwatch::drain
