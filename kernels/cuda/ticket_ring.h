// Which result slot belongs to whom: ticket t has slot t modulo their number.
//
// Threads of the trainer reserve, one reader takes and discards; nobody waits or locks. A slot is used again when the
// ticket before it was taken, or was discarded and written. A reader that leaves one ticket lying therefore stops the
// ring after one turn: then nothing can be reserved, which is its way to say that it is late.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

class TicketRing {
 public:
  // `results` has `slots` entries, a power of two, all zero. `first` is where tickets begin (for tests).
  TicketRing(ResultSlot* results, size_t slots, uint64_t first = 0);

  struct Range {
    uint64_t first = 0;
    size_t count = 0;
  };

  // --- threads of the trainer ---

  // Tickets in a row: `count`, or as many as there are.
  Range Reserve(size_t count) noexcept;
  // The result is known without the device.
  void Answer(uint64_t ticket, const Partial& totals) noexcept;
  // Nobody was told of this ticket, and no launch writes to it.
  void Cancel(uint64_t ticket) noexcept;
  // The device is through with all of them.
  bool AllWritten(const Range& range) const noexcept;

  // --- the reader ---

  // The result is there and was not taken yet.
  bool IsReady(uint64_t ticket) const noexcept;
  // True once for a ticket, when it is ready. Its slot may then be reserved again.
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
  // Of each slot the last ticket that the host is through with, and how: (ticket + 1) * 2 + Ending.
  std::vector<std::atomic<uint64_t>> ended_;
  alignas(64) std::atomic<uint64_t> head_;  // the next ticket
  alignas(64) std::atomic<uint64_t> tail_;  // all before it are free
};

}  // namespace stepwatch::kernels::cuda
