#include "src/drain/plan_stream.h"

#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "src/drain/merge_repeated_records.h"

namespace stepwatch::drain {
namespace {

// One entry may close the previous frame, the columns of its step, and its own frame.
constexpr size_t kFramesOfEntry = 2;

}  // namespace

void PlanStream::MakeRoom() {
  assembler_.MakeRoom();
  pause_marks_.reserve(pause_marks_.size() + 1);
  waiting_.MakeRoom(kFramesOfEntry);
}

bool PlanStream::TryToMakeRoom() noexcept {
  try {
    MakeRoom();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool PlanStream::EmptyRing(size_t waiting_bytes_max, Time now, bool last_call) {
  step::RingEntry entry;
  for (;;) {
    const bool full = waiting_.pending() && waiting_.records() * sizeof(Record) > waiting_bytes_max;
    if (full && !last_call) return false;
    if (pipeline_->ring.Empty()) return true;
    const bool has_room = TryToMakeRoom();
    if (!has_room && !last_call) throw std::bad_alloc();
    if (!pipeline_->ring.Pop(&entry)) return true;
    const bool is_marker = !std::holds_alternative<Record>(entry) && !std::holds_alternative<step::GraphStep>(entry);
    if (has_room || is_marker)
      TakeEntry(entry, now);
    else
      waiting_.CountLost(entry);
  }
}

void PlanStream::TakeEntry(const step::RingEntry& entry, Time now) noexcept {
  if (const auto* end = std::get_if<step::FrameEnd>(&entry)) {
    TakeColumns(end->step, now);
    if (!cost_) cost_.emplace();
    cost_->Add(end->cost);
  }
  const auto* mark = std::get_if<step::PauseMark>(&entry);
  if (mark != nullptr && pause_marks_.size() < pause_marks_.capacity()) pause_marks_.push_back(*mark);
  const uint64_t late_before = assembler_.late();
  if (auto frame = assembler_.Add(entry)) waiting_.Add(*std::move(frame), now);
  if (assembler_.late() == late_before) return;
  if (const auto* record = std::get_if<Record>(&entry)) engine_->Discard(*record);
}

// The columns were queued before the step's frame was closed.
void PlanStream::TakeColumns(int64_t step, Time now) noexcept {
  std::optional<step::HeatmapStep> columns = pipeline_->heatmaps.Take(step);
  if (!columns) return;
  if (auto frame = assembler_.Add(*std::move(columns))) waiting_.Add(*std::move(frame), now);
}

const AssembledFrame* PlanStream::Ready(Time now, bool last_call) {
  while (AssembledFrame* frame = waiting_.Ready(now, last_call)) {
    const size_t before = frame->records.size();
    try {
      (void)MergeRepeatedRecords(plan()->layout, &frame->records);
      merged_ += before - frame->records.size();
      return frame;
    } catch (const std::bad_alloc&) {
      merged_ += before - frame->records.size();
      if (!last_call) throw;
      DiscardReady();
    }
  }
  return nullptr;
}

std::vector<step::PauseMark> PlanStream::TakePauseMarks() noexcept {
  return std::exchange(pause_marks_, {});
}

void PlanStream::Credit(uint64_t written, uint64_t discarded) noexcept {
  written_ += written;
  discarded_ += discarded;
}

Ledger PlanStream::account() const noexcept {
  const auto count = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  Ledger ledger;
  ledger.produced = count(pipeline_->produced) + waiting_.replayed() - merged_;
  ledger.written = written_;
  ledger.dropped[static_cast<size_t>(DropReason::kRingFull)] = count(pipeline_->dropped_ring_full);
  ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] = count(pipeline_->dropped_unsupported);
  ledger.dropped[static_cast<size_t>(DropReason::kLate)] =
      assembler_.late() + waiting_.late() + count(pipeline_->dropped_late);
  ledger.dropped[static_cast<size_t>(DropReason::kSinkFailed)] = discarded_;
  return ledger;
}

// Records that steps announced but did not deliver must be counted as dropped at the ring or as late.
bool PlanStream::misses_records(const Ledger& account) const {
  const uint64_t known = account.dropped[static_cast<size_t>(DropReason::kRingFull)] +
                         account.dropped[static_cast<size_t>(DropReason::kUnsupported)] +
                         account.dropped[static_cast<size_t>(DropReason::kLate)];
  return assembler_.missing() > known;
}

}  // namespace stepwatch::drain
