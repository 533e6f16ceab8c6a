// The records of one plan on their way out of its ring: put together as frames, held until a device has given what it
// owes, merged, counted.
//
// Drain thread only. The account is exact whatever fails: what cannot be kept for lack of memory is counted.
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

  // `engine` outlives the stream.
  PlanStream(stats::Engine* engine, std::shared_ptr<step::Pipeline> pipeline)
      : pipeline_(std::move(pipeline)), engine_(engine), waiting_(engine, pipeline_) {}

  // Takes all entries out of the ring. False: as much waits for results of a device as may wait, so that the ring, and
  // then its producers, feel it. An entry comes out when there is room for it; throws std::bad_alloc if there is none,
  // or counts what is left, in the last call.
  bool EmptyRing(size_t waiting_bytes_max, Time now, bool last_call);
  // Asks the device for what it owes.
  void Fetch() noexcept { waiting_.Fetch(&assembler_.open()); }
  // The next frame if it is whole, with the records that are one row merged. Throws std::bad_alloc, or discards and
  // counts the frame, in the last call.
  const AssembledFrame* Ready(Time now, bool last_call);
  // The frame that Ready has given leaves.
  std::shared_ptr<const AssembledFrame> Take() noexcept { return waiting_.Take(); }
  void DiscardReady() noexcept { waiting_.DiscardReady(); }
  // What became of records that were taken: the sinks have written them or discarded them.
  void Credit(uint64_t written, uint64_t discarded) noexcept;

  const std::shared_ptr<step::Pipeline>& pipeline() const { return pipeline_; }
  const std::shared_ptr<const plan::Plan>& plan() const { return pipeline_->plan; }
  PlanId id() const { return plan()->layout.plan_id; }
  // Its first entry is out of the ring.
  bool begun() const { return assembler_.begin().has_value(); }
  // Its last entry is out of the ring.
  bool finished() const { return assembler_.end().has_value(); }
  // And no frame waits here.
  bool exhausted() const { return finished() && waiting_.empty(); }
  bool has_backlog() const { return !waiting_.empty() || !pipeline_->ring.Empty(); }
  bool pending() const { return waiting_.pending(); }
  // What measuring has cost since the last call; nothing: no collected step has ended.
  std::optional<step::StepCost> TakeCost() noexcept { return std::exchange(cost_, std::nullopt); }
  const step::PlanBegin& begin() const { return *assembler_.begin(); }
  const step::PlanEnd& end() const { return *assembler_.end(); }
  // What it was told of pauses since the last call.
  std::vector<step::PauseMark> TakePauseMarks() noexcept;
  // Of what its steps have announced, records that are in no account.
  bool misses_records(const Ledger& account) const;
  // Final when it balances and the first sink has nothing of the plan left.
  Ledger account() const noexcept;

  // Frames that are whole but not taken, then the one that still grows.
  template <class Visitor>
  void ForEach(const Visitor& visitor) {
    waiting_.ForEach(visitor);
    visitor(assembler_.open());
  }

  // What the drain has told about it.
  bool told_begin = false;
  bool told_finish = false;
  bool told_end = false;  // to the sinks
  bool told_cost = false;
  bool told_loss = false;

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
  uint64_t merged_ = 0;  // records that went into the rows of others
};

}  // namespace stepwatch::drain
