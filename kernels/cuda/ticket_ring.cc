#include "kernels/cuda/ticket_ring.h"

#include <algorithm>

namespace stepwatch::kernels::cuda {

TicketRing::TicketRing(ResultSlot* results, size_t slots, uint64_t first)
    : results_(results), mask_(slots - 1), ended_(slots), head_(first), tail_(first) {}

// Written by the device, or by Answer and Cancel.
uint64_t TicketRing::Sequence(uint64_t ticket) const noexcept {
  return std::atomic_ref(results_[ticket & mask_].sequence).load(std::memory_order_acquire);
}

bool TicketRing::IsFree(uint64_t ticket) const noexcept {
  const uint64_t ended = ended_[ticket & mask_].load(std::memory_order_acquire);
  if (ended / 2 != ticket + 1) return false;
  return ended % 2 == kTaken || Sequence(ticket) == ticket + 1;
}

void TicketRing::AdvanceTail() noexcept {
  uint64_t tail = tail_.load(std::memory_order_acquire);
  while (tail != head_.load(std::memory_order_acquire) && IsFree(tail))
    if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_acq_rel)) ++tail;
}

TicketRing::Range TicketRing::Reserve(size_t count) noexcept {
  uint64_t head = head_.load(std::memory_order_relaxed);
  bool advanced = false;
  for (;;) {
    const uint64_t tail = tail_.load(std::memory_order_acquire);
    // Another thread may have moved both; then the exchange fails.
    const uint64_t used = head - tail > slots() ? slots() : head - tail;
    const size_t free = static_cast<size_t>(slots() - used);
    if (free < count && !advanced) {
      AdvanceTail();
      advanced = true;
      head = head_.load(std::memory_order_relaxed);
      continue;
    }
    const size_t taken = std::min(free, count);
    if (taken == 0) return {};
    if (head_.compare_exchange_weak(head, head + taken, std::memory_order_acq_rel)) return {head, taken};
  }
}

void TicketRing::Answer(uint64_t ticket, const Partial& totals) noexcept {
  ResultSlot& slot = results_[ticket & mask_];
  slot.totals = totals;
  std::atomic_ref(slot.sequence).store(ticket + 1, std::memory_order_release);
}

void TicketRing::Cancel(uint64_t ticket) noexcept {
  std::atomic_ref(results_[ticket & mask_].sequence).store(ticket + 1, std::memory_order_release);
  ended_[ticket & mask_].store((ticket + 1) * 2 + kTaken, std::memory_order_release);
}

bool TicketRing::AllWritten(const Range& range) const noexcept {
  for (size_t i = 0; i < range.count; ++i) {
    // A later ticket in the slot proves that this one was written long ago; the difference is signed because numbers
    // wrap.
    const int64_t behind = static_cast<int64_t>(range.first + i + 1 - Sequence(range.first + i));
    if (behind > 0) return false;
  }
  return true;
}

bool TicketRing::IsReady(uint64_t ticket) const noexcept {
  return ended_[ticket & mask_].load(std::memory_order_relaxed) / 2 != ticket + 1 && Sequence(ticket) == ticket + 1;
}

bool TicketRing::Take(uint64_t ticket, Partial* totals) noexcept {
  if (!IsReady(ticket)) return false;
  *totals = results_[ticket & mask_].totals;
  ended_[ticket & mask_].store((ticket + 1) * 2 + kTaken, std::memory_order_release);
  return true;
}

void TicketRing::Discard(uint64_t ticket) noexcept {
  std::atomic<uint64_t>& ended = ended_[ticket & mask_];
  if (ended.load(std::memory_order_relaxed) / 2 == ticket + 1) return;
  ended.store((ticket + 1) * 2 + kDiscarded, std::memory_order_release);
}

}  // namespace stepwatch::kernels::cuda
