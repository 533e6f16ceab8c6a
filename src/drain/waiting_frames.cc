#include "src/drain/waiting_frames.h"

#include <algorithm>
#include <new>
#include <utility>

namespace stepwatch::drain {

void WaitingFrames::MakeRoom(size_t count) {
  frames_.MakeRoom(count);
  for (Waiting& room : frames_.rooms())
    if (room.frame == nullptr) room.frame = std::make_shared<AssembledFrame>();
}

void WaitingFrames::Add(AssembledFrame frame, Time now) noexcept {
  if (!frames_.has_room() || frames_.room().frame == nullptr) return Discard(&frame);
  Waiting& waiting = frames_.room();
  waiting.due = now + kResultsDueAfter;
  waiting.counted = frame.records.size();
  records_ += waiting.counted;
  *waiting.frame = std::move(frame);
  frames_.Push();
}

void WaitingFrames::Fetch(AssembledFrame* open) noexcept {
  pending_ = 0;
  for (Waiting& waiting : frames_) {
    FetchGraphSteps(&waiting);
    Fetch(waiting.frame.get(), &pending_);
  }
  Fetch(open, &pending_);
}

void WaitingFrames::Fetch(AssembledFrame* frame, size_t* still_pending) noexcept {
  std::erase_if(frame->pending, [&](uint32_t position) {
    return engine_->Harvest(pipeline_->plan->layout, pipeline_->measure, &frame->records[position]);
  });
  *still_pending += frame->pending.size() + frame->graph_steps.size();
}

void WaitingFrames::FetchGraphSteps(Waiting* waiting) noexcept {
  std::erase_if(waiting->frame->graph_steps, [&](const step::GraphStep& step) {
    try {
      return FetchGraphStep(step, waiting);
    } catch (const std::bad_alloc&) {  // no result was fetched: retried until overdue
      return false;
    }
  });
}

// The records follow those of the frame that were observed while the step ran.
bool WaitingFrames::FetchGraphStep(const step::GraphStep& step, Waiting* waiting) {
  AssembledFrame& frame = *waiting->frame;
  device::GraphRows rows;
  rows.like.step = step.step;
  rows.like.plan_id = pipeline_->plan->layout.plan_id;
  rows.like.flags = step.flags;
  rows.due = step.due;
  rows.records = &frame.records;
  const size_t before = frame.records.size();
  if (!engine_->HarvestGraphs(step.on, pipeline_->graph_reader, &rows)) return false;
  const size_t added = frame.records.size() - before;
  replayed_ += added;
  records_ += added;
  waiting->counted += added;
  CountLostRows(rows.lost);
  return true;
}

void WaitingFrames::CountLostRows(uint64_t count) noexcept {
  replayed_ += count;
  late_ += count;
}

void WaitingFrames::CountLost(const step::RingEntry& entry) noexcept {
  if (const auto* graph_step = std::get_if<step::GraphStep>(&entry))
    CountLostRows(engine_->CountGraphRows(graph_step->on, pipeline_->graph_reader, graph_step->due));
  const auto* record = std::get_if<Record>(&entry);
  if (record == nullptr) return;
  ++late_;
  engine_->Discard(*record);
}

AssembledFrame* WaitingFrames::Ready(Time now, bool last_call) noexcept {
  while (!frames_.empty()) {
    AssembledFrame* first = frames_.front().frame.get();
    const bool waits = !first->pending.empty() || !first->graph_steps.empty();
    if (waits && now < frames_.front().due && !last_call) return nullptr;
    DiscardPending(first);
    if (!first->empty()) return first;
    (void)Take();
  }
  return nullptr;
}

std::shared_ptr<const AssembledFrame> WaitingFrames::Take() noexcept {
  records_ -= frames_.front().counted;
  std::shared_ptr<const AssembledFrame> taken = std::move(frames_.front().frame);
  frames_.pop_front();
  return taken;
}

void WaitingFrames::DiscardReady() noexcept {
  Discard(frames_.front().frame.get());
  (void)Take();
}

void WaitingFrames::Discard(AssembledFrame* frame) noexcept {
  DiscardPending(frame);
  late_ += frame->records.size();
}

void WaitingFrames::DiscardPending(AssembledFrame* frame) noexcept {
  pending_ -= std::min(pending_, frame->pending.size() + frame->graph_steps.size());
  // The device's answer is unknown: each graph may have been replayed.
  for (const step::GraphStep& step : frame->graph_steps)
    CountLostRows(engine_->CountGraphRows(step.on, pipeline_->graph_reader, step.due));
  frame->graph_steps.clear();
  if (frame->pending.empty()) return;
  for (const uint32_t position : frame->pending) engine_->Discard(frame->records[position]);
  late_ += frame->pending.size();
  std::erase_if(frame->records, [](const Record& record) { return record.pending(); });
  frame->pending.clear();
}

}  // namespace stepwatch::drain
