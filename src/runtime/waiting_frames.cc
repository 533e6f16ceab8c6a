#include "src/runtime/waiting_frames.h"

#include <algorithm>
#include <utility>

namespace stepwatch::runtime {

void WaitingFrames::Add(records::AssembledFrame frame, Time now) {
  records_ += frame.records.size();
  frames_.push_back({std::move(frame), now + kResultsDueAfter});
}

void WaitingFrames::Fetch(records::AssembledFrame* open) {
  pending_ = 0;
  for (Waiting& waiting : frames_) Fetch(&waiting.frame, &pending_);
  Fetch(open, &pending_);
}

void WaitingFrames::Fetch(records::AssembledFrame* frame, size_t* still_pending) {
  std::erase_if(frame->pending, [&](uint32_t position) {
    return engine_->Harvest(pipeline_->plan->layout, pipeline_->measure, &frame->records[position]);
  });
  *still_pending += frame->pending.size();
}

std::optional<records::AssembledFrame> WaitingFrames::Next(Time now, bool give_up) {
  while (!frames_.empty()) {
    Waiting& first = frames_.front();
    if (!first.frame.pending.empty() && now < first.due && !give_up) return std::nullopt;
    records_ -= first.frame.records.size();
    DropPending(&first.frame);
    records::AssembledFrame frame = std::move(first.frame);
    frames_.pop_front();
    if (!frame.records.empty()) return frame;
  }
  return std::nullopt;
}

void WaitingFrames::DropPending(records::AssembledFrame* frame) {
  if (frame->pending.empty()) return;
  for (const uint32_t position : frame->pending) engine_->Abandon(frame->records[position]);
  late_ += frame->pending.size();
  pending_ -= std::min(pending_, frame->pending.size());
  std::erase_if(frame->records, [](const Record& record) { return record.pending(); });
  frame->pending.clear();
}

}  // namespace stepwatch::runtime
