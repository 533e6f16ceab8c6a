// Assigns result slots: ticket t has slot t modulo their number.
//
// Threads of the trainer reserve; one reader takes and discards; no call waits or locks. A slot is reused when its
// previous ticket was taken, or was discarded and written. A ticket that the reader leaves unread stops the ring after
// one turn: Reserve then returns none, which reports that the reader is late.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

class TicketRing {
 public:
  // `results` has `slots` entries, a power of two, all zero. `first` is the first ticket (for tests).
  TicketRing(ResultSlot* results, size_t slots, uint64_t first = 0);

  struct Range {
    uint64_t first = 0;
    size_t count = 0;
  };

  // --- threads of the trainer ---

  // Consecutive tickets: `count`, or as many as are free.
  Range Reserve(size_t count) noexcept;
  // Stores a result that is known without the device.
  void Answer(uint64_t ticket, const Partial& totals) noexcept;
  // Returns a ticket that was not handed out and that no launch writes to.
  void Cancel(uint64_t ticket) noexcept;
  // True if the device has written all of them.
  bool AllWritten(const Range& range) const noexcept;

  // --- the reader ---

  // True if the result is present and was not taken yet.
  bool IsReady(uint64_t ticket) const noexcept;
  // Returns true once per ticket, when it is ready. Its slot may then be reserved again.
  bool Take(uint64_t ticket, Partial* totals) noexcept;
  void Discard(uint64_t ticket) noexcept;

  size_t slots() const { return mask_ + 1; }
  uint64_t mask() const { return mask_; }

 private:
  enum Ending : uint64_t { kTaken = 0, kDiscarded = 1 };

  uint64_t Sequence(uint64_t ticket) const noexcept;
  bool IsFree(uint64_t ticket) const noexcept;
  void AdvanceTail() noexcept;

  ResultSlot* const results_;
  const uint64_t mask_;
  // For each slot, the last ticket that the host has finished, and how: (ticket + 1) * 2 + Ending.
  std::vector<std::atomic<uint64_t>> ended_;
  alignas(64) std::atomic<uint64_t> head_;  // the next ticket
  alignas(64) std::atomic<uint64_t> tail_;  // all before it are free
};

}  // namespace stepwatch::kernels::cuda
