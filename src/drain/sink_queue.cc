#include "src/drain/sink_queue.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace stepwatch::drain {
namespace {

constexpr std::chrono::milliseconds kBackOffMin{50};
constexpr std::chrono::milliseconds kBackOffMax{1000};

StepFrame FrameView(const AssembledFrame& frame) {
  return StepFrame{frame.step, frame.records.data(), frame.records.size(), frame.columns.data(), frame.columns.size()};
}

}  // namespace

SinkQueue::SinkQueue(std::shared_ptr<Sink> sink, size_t backlog_bytes_max)
    : sink_(std::move(sink)), backlog_bytes_max_(backlog_bytes_max) {}

void SinkQueue::AddFrame(std::shared_ptr<const plan::Plan> plan, AssembledFrame frame) {
  Item item;
  item.plan = std::move(plan);
  item.bytes = frame.records.size() * sizeof(Record) + frame.columns.size() * sizeof(HeatmapColumn);
  item.frame = std::move(frame);
  backlog_bytes_ += item.bytes;
  items_.push_back(std::move(item));
}

void SinkQueue::AddEnd(std::shared_ptr<const plan::Plan> plan) {
  Item item;
  item.plan = std::move(plan);
  items_.push_back(std::move(item));
}

// What a sink throws is a failure like any other; it must not keep the other sinks, or the ledger, from going on.
template <class Call>
Status SinkQueue::Guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, std::string("a sink threw an exception: ") + error.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "a sink threw an unknown exception");
  }
}

// True if the sink has taken the frame whole.
bool SinkQueue::Write(Item* item, std::vector<Outcome>* outcomes) {
  item->tried = true;
  size_t said = 0;
  const Status status = Guarded([&] {
    WriteResult result = sink_->Write(item->plan->layout, FrameView(*item->frame));
    said = result.written;
    return result.status;
  });
  // A sink may miscount, the ledger may not.
  const uint64_t left = item->frame->records.size() - item->written;
  const uint64_t written = status.ok() ? left : std::min<uint64_t>(said, left);
  item->written += written;
  if (written > 0) outcomes->push_back({item->plan->layout.plan_id, written, 0});
  flush_due_ |= written > 0 || status.ok();
  failure_ = status.ok() ? std::nullopt : std::optional(status);
  return status.ok();
}

void SinkQueue::EndPlan(const Item& item) {
  const Status ended = Guarded([&] {
    sink_->EndPlan(item.plan->layout);
    return Status();
  });
  if (!ended.ok()) failure_ = ended;
  flush_due_ = true;
}

void SinkQueue::Flush() {
  if (!std::exchange(flush_due_, false)) return;
  const Status flushed = Guarded([&] { return sink_->Flush(); });
  if (!flushed.ok()) failure_ = flushed;
}

bool SinkQueue::HoldsFrameOf(PlanId plan) const {
  return std::any_of(items_.begin(), items_.end(),
                     [plan](const Item& item) { return item.frame && item.plan->layout.plan_id == plan; });
}

void SinkQueue::PopFront() {
  backlog_bytes_ -= items_.front().bytes;
  items_.pop_front();
}

void SinkQueue::GiveUpFront(std::vector<Outcome>* outcomes) {
  const Item& item = items_.front();
  if (!item.frame) {
    EndPlan(item);
    return PopFront();
  }
  if (item.tried)
    (void)Guarded([&] {
      sink_->Abandon(item.plan->layout, FrameView(*item.frame));
      return Status();
    });
  outcomes->push_back({item.plan->layout.plan_id, 0, item.frame->records.size() - item.written});
  PopFront();
}

void SinkQueue::PassOnItems(SteadyTime now, std::vector<Outcome>* outcomes) {
  while (!items_.empty()) {
    Item& item = items_.front();
    if (!item.frame) {
      EndPlan(item);
    } else if (Write(&item, outcomes)) {
      retry_at_.reset();
      back_off_ = std::chrono::milliseconds(0);
    } else {
      back_off_ = std::clamp(back_off_ * 2, kBackOffMin, kBackOffMax);
      retry_at_ = now + back_off_;
      return;
    }
    PopFront();
  }
}

std::vector<SinkQueue::Outcome> SinkQueue::Advance(SteadyTime now, bool now_or_never) {
  std::vector<Outcome> outcomes;
  const bool waits = retry_at_ && now < *retry_at_ && !now_or_never;
  if (!waits) PassOnItems(now, &outcomes);
  // The oldest frames go first: whoever looks after a full disk wants the latest.
  while (backlog_bytes_ > backlog_bytes_max_) GiveUpFront(&outcomes);
  Flush();
  return outcomes;
}

std::vector<SinkQueue::Outcome> SinkQueue::GiveUp() {
  std::vector<Outcome> outcomes;
  while (!items_.empty()) GiveUpFront(&outcomes);
  Flush();
  return outcomes;
}

}  // namespace stepwatch::drain
