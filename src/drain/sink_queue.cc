#include "src/drain/sink_queue.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "src/sinks/beyond_limit.h"
#include "src/sinks/impossible_frame.h"

namespace stepwatch::drain {
namespace {

constexpr std::chrono::milliseconds kBackOffMin{50};
constexpr std::chrono::milliseconds kBackOffMax{1000};

StepFrame FrameView(const AssembledFrame& frame) {
  return StepFrame{frame.step, frame.records.data(), frame.records.size(), frame.columns.data(), frame.columns.size()};
}

// Short enough to need no allocation.
Status OutOfMemory() {
  return Status(StatusCode::kExhausted, "out of memory");
}

Status Thrown(const char* what, const char* why) noexcept {
  try {
    return Status(StatusCode::kInternal, std::string(what) + why);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace

SinkQueue::SinkQueue(std::shared_ptr<Sink> sink, size_t backlog_bytes_max, Callbacks callbacks)
    : sink_(std::move(sink)), backlog_bytes_max_(backlog_bytes_max), callbacks_(std::move(callbacks)) {}

void SinkQueue::Add(Item item) {
  const size_t bytes = item.bytes;
  items_.Push(std::move(item));
  backlog_bytes_ += bytes;
}

void SinkQueue::AddFrame(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<const AssembledFrame> frame) {
  Item item;
  item.plan = std::move(plan);
  item.bytes = frame->records.size() * sizeof(Record) + frame->columns.size() * sizeof(HeatmapColumn);
  item.frame = std::move(frame);
  Add(std::move(item));
}

void SinkQueue::AddEnd(std::shared_ptr<const plan::Plan> plan) {
  Item item;
  item.plan = std::move(plan);
  Add(std::move(item));
}

// An exception of a sink is a failure like any other; it must not stop the other sinks or the ledger.
template <class Call>
Status SinkQueue::CatchAsStatus(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const sinks::ImpossibleFrame& error) {
    is_unwritable_ = true;
    return Thrown("a sink cannot write a frame, which is dropped: ", error.what());
  } catch (const std::exception& error) {
    return Thrown("a sink threw an exception: ", error.what());
  } catch (...) {
    return Thrown("a sink threw an unknown exception", "");
  }
}

void SinkQueue::CreditPlan(const Item& item, uint64_t written, uint64_t discarded) noexcept {
  if (callbacks_.credit && written + discarded > 0) callbacks_.credit(item.plan->layout.plan_id, written, discarded);
}

// Returns true if the sink accepted the whole frame.
bool SinkQueue::Write(Item* item) noexcept {
  if (item->frame->has_nothing_to_write()) return true;
  item->tried = true;
  size_t reported = 0;
  bool is_limited = false;
  Status status = CatchAsStatus([&] {
    try {
      WriteResult result = sink_->Write(item->plan->layout, FrameView(*item->frame));
      reported = result.written;
      return std::move(result.status);
    } catch (const sinks::BeyondLimit& limit) {
      reported = limit.written();
      is_limited = is_unwritable_ = true;
      return Status(StatusCode::kExhausted, "");
    }
  });
  // A sink may miscount, the ledger must not.
  const uint64_t left = item->frame->records.size() - item->written;
  const uint64_t written = status.ok() ? left : std::min<uint64_t>(reported, left);
  item->written += written;
  CreditPlan(*item, written, 0);
  flush_due_ |= written > 0 || status.ok();
  const bool taken = status.ok();
  if (taken || is_limited)  // the limit is reported by its owner
    failure_.reset();
  else
    failure_ = std::move(status);
  return taken;
}

void SinkQueue::EndPlan(const Item& item) noexcept {
  Status ended = CatchAsStatus([&] {
    sink_->EndPlan(item.plan->layout);
    return Status();
  });
  is_unwritable_ = false;
  if (!ended.ok()) failure_ = std::move(ended);
  flush_due_ = true;
}

void SinkQueue::BeginSegmentBehind(const Item& item) noexcept {
  if (item.frame->next_segment == 0) return;
  Flush();
  SegmentBegun begun{item.frame->next_segment, item.plan->layout.plan_id, item.frame->step, {}};
  Status status = CatchAsStatus([&] {
    begun.files = sink_->BeginSegment(begun.segment);
    return Status();
  });
  is_unwritable_ = false;
  if (!status.ok()) failure_ = std::move(status);
  flush_due_ = true;
  if (callbacks_.on_segment) callbacks_.on_segment(std::move(begun));
}

void SinkQueue::Flush() noexcept {
  if (!std::exchange(flush_due_, false)) return;
  Status flushed = CatchAsStatus([&] { return sink_->Flush(); });
  is_unwritable_ = false;
  if (!flushed.ok()) failure_ = std::move(flushed);
}

bool SinkQueue::HoldsFrameOf(PlanId plan) const {
  return std::any_of(items_.begin(), items_.end(),
                     [plan](const Item& item) { return item.frame && item.plan->layout.plan_id == plan; });
}

void SinkQueue::PopFront() noexcept {
  backlog_bytes_ -= items_.front().bytes;
  items_.pop_front();
}

void SinkQueue::DiscardFront() noexcept {
  const Item& item = items_.front();
  if (!item.frame) {
    EndPlan(item);
    return PopFront();
  }
  if (item.tried)
    (void)CatchAsStatus([&] {
      sink_->Discard(item.plan->layout, FrameView(*item.frame));
      return Status();
    });
  is_unwritable_ = false;
  CreditPlan(item, 0, item.frame->records.size() - item.written);
  BeginSegmentBehind(item);
  PopFront();
}

void SinkQueue::PassOnItems(SteadyTime now) noexcept {
  while (!items_.empty()) {
    Item& item = items_.front();
    if (!item.frame) {
      EndPlan(item);
    } else if (Write(&item)) {
      retry_at_.reset();
      back_off_ = std::chrono::milliseconds(0);
      BeginSegmentBehind(item);
    } else if (is_unwritable_) {
      DiscardFront();
      continue;
    } else {
      back_off_ = std::clamp(back_off_ * 2, kBackOffMin, kBackOffMax);
      retry_at_ = now + back_off_;
      return;
    }
    PopFront();
  }
}

void SinkQueue::Advance(SteadyTime now, bool now_or_never) noexcept {
  const bool waits = retry_at_ && now < *retry_at_ && !now_or_never;
  if (!waits) PassOnItems(now);
  // Discards the oldest frames first: after a full disk, users need the latest.
  while (backlog_bytes_ > backlog_bytes_max_) DiscardFront();
  Flush();
}

void SinkQueue::DiscardAll() noexcept {
  while (!items_.empty()) DiscardFront();
  Flush();
}

}  // namespace stepwatch::drain
