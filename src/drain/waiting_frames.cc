#include "src/drain/waiting_frames.h"

#include <algorithm>
#include <utility>

namespace stepwatch::drain {

void WaitingFrames::Add(AssembledFrame frame, Time now) {
  const size_t count = frame.records.size();
  records_ += count;
  frames_.push_back({std::move(frame), now + kResultsDueAfter, count});
}

void WaitingFrames::Fetch(AssembledFrame* open) {
  pending_ = 0;
  for (Waiting& waiting : frames_) {
    FetchGraphSteps(&waiting);
    Fetch(&waiting.frame, &pending_);
  }
  Fetch(open, &pending_);
}

void WaitingFrames::Fetch(AssembledFrame* frame, size_t* still_pending) {
  std::erase_if(frame->pending, [&](uint32_t position) {
    return engine_->Harvest(pipeline_->plan->layout, pipeline_->measure, &frame->records[position]);
  });
  *still_pending += frame->pending.size() + frame->graph_steps.size();
}

// The records come behind those of the frame that were seen while the step ran.
void WaitingFrames::FetchGraphSteps(Waiting* waiting) {
  AssembledFrame& frame = waiting->frame;
  std::erase_if(frame.graph_steps, [&](const step::GraphStep& step) {
    device::GraphRows rows;
    rows.like.step = step.step;
    rows.like.plan_id = pipeline_->plan->layout.plan_id;
    rows.like.flags = step.flags;
    rows.records = &frame.records;
    const size_t before = frame.records.size();
    if (!engine_->HarvestGraphs(step.on, pipeline_->graph_reader, &rows)) return false;
    const size_t added = frame.records.size() - before;
    replayed_ += added;
    records_ += added;
    waiting->counted += added;
    CountLost(rows.lost);
    return true;
  });
}

void WaitingFrames::CountLost(uint64_t count) {
  replayed_ += count;
  late_ += count;
}

std::optional<AssembledFrame> WaitingFrames::Next(Time now, bool give_up) {
  while (!frames_.empty()) {
    Waiting& first = frames_.front();
    const bool waits = !first.frame.pending.empty() || !first.frame.graph_steps.empty();
    if (waits && now < first.due && !give_up) return std::nullopt;
    records_ -= first.counted;
    DropPending(&first.frame);
    AssembledFrame frame = std::move(first.frame);
    frames_.pop_front();
    if (!frame.empty()) return frame;
  }
  return std::nullopt;
}

void WaitingFrames::DropPending(AssembledFrame* frame) {
  pending_ -= std::min(pending_, frame->pending.size() + frame->graph_steps.size());
  // What the device would have said is not known: each may have been replayed.
  for (const step::GraphStep& step : frame->graph_steps)
    CountLost(engine_->CountGraphRows(step.on, pipeline_->graph_reader));
  frame->graph_steps.clear();
  if (frame->pending.empty()) return;
  for (const uint32_t position : frame->pending) engine_->Abandon(frame->records[position]);
  late_ += frame->pending.size();
  std::erase_if(frame->records, [](const Record& record) { return record.pending(); });
  frame->pending.clear();
}

}  // namespace stepwatch::drain
