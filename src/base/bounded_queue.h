// A queue of fixed size between threads that never wait for each other.
//
// Any number of threads may push, exactly one pops. Neither waits, locks or allocates; a push to a full queue fails.
// The scheme is the bounded queue with a sequence number in each cell: a cell at position p is free for the writer of p
// when its sequence is p, and full for the reader of p when it is p + 1.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace stepwatch::base {

// T is copied by one thread at a time; its copy must not throw.
template <class T>
class BoundedQueue {
 public:
  // Rounds `places` up to a power of two.
  explicit BoundedQueue(size_t places) : mask_(std::bit_ceil(places) - 1), cells_(new Cell[mask_ + 1]) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Keeps `keep_free` places for other callers. Returns false if there is no room.
  template <class U>
  bool TryPush(const U& payload, size_t keep_free = 0) noexcept {
    uint64_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      // head_ only grows, so a stale value errs on the side of "full".
      const uint64_t used = position - head_.load(std::memory_order_acquire);
      if (static_cast<int64_t>(used) >= 0 && used + keep_free > mask_) return false;
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) break;
    }
    Cell& cell = cells_[position & mask_];
    // Free since head_ has passed it: the reader stores the sequence before it advances head_.
    cell.entry = payload;
    cell.sequence.store(position + 1, std::memory_order_release);
    return true;
  }

  // --- the one thread that pops ---
  // Returns false if the queue is empty.
  bool Pop(T* entry) noexcept {
    const uint64_t position = head_.load(std::memory_order_relaxed);
    Cell& cell = cells_[position & mask_];
    if (cell.sequence.load(std::memory_order_acquire) != position + 1) return false;
    *entry = cell.entry;
    cell.sequence.store(position + mask_ + 1, std::memory_order_release);
    head_.store(position + 1, std::memory_order_release);
    return true;
  }
  // True if Pop would fail.
  bool Empty() const noexcept {
    const uint64_t position = head_.load(std::memory_order_relaxed);
    return cells_[position & mask_].sequence.load(std::memory_order_acquire) != position + 1;
  }

  size_t capacity() const { return mask_ + 1; }
  static constexpr size_t EntryBytes() { return sizeof(Cell); }

 private:
  struct Cell {
    std::atomic<uint64_t> sequence;
    T entry;
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // next position to write
  alignas(64) std::atomic<uint64_t> head_{0};  // next position to read
};

}  // namespace stepwatch::base
