// Which micro-batch a call of forward belongs to, and which call of its module it is there.
//
// No framework tells "a micro-batch begins", so it is inferred, in this order:
//   1. marked: BeginMicroBatch was called in this step; micro-batch k lies between its (k+1)-th call and the next;
//   2. the chunk's root module is itself watched: it is entered in training mode once per micro-batch;
//   3. otherwise each module counts its own calls: call n of a step is that of micro-batch n while n < grad_acc_steps,
//   and
//      every call beyond is one more in the last of them. A module that is called twice per forward is then told apart
//      only when grad_acc_steps is 1: watch the root or mark the micro-batches.
// Calls before the first mark of a step count as its first micro-batch. Everything starts from 0 at every step.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace stepwatch::front_end {

struct CallPosition {
  int32_t micro_step = 0;
  uint16_t call = 0;  // k-th further call in this micro-batch

  bool operator==(const CallPosition&) const = default;
};

// Counts events within a step. Steps are told apart by any number that changes with them.
class StepCounter {
 public:
  // How many this step has seen, these included.
  uint32_t Add(uint32_t step, uint32_t by = 1) noexcept { return Update(step, by); }
  uint32_t Count(uint32_t step) const noexcept {
    const uint64_t state = state_.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(state >> 32) == step ? static_cast<uint32_t>(state) : 0;
  }

 private:
  uint32_t Update(uint32_t step, uint32_t by) noexcept {
    uint64_t old = state_.load(std::memory_order_relaxed);
    uint64_t fresh = 0;
    do {
      const uint32_t count = static_cast<uint32_t>(old >> 32) == step ? static_cast<uint32_t>(old) : 0;
      fresh = (uint64_t{step} << 32) | (count + by);
    } while (!state_.compare_exchange_weak(old, fresh, std::memory_order_relaxed));
    return static_cast<uint32_t>(fresh);
  }

  std::atomic<uint64_t> state_{uint64_t{0xffffffff} << 32};  // step, count
};

// The calls of one module.
class CallCounter {
 public:
  // `marks`: marks or root entries of this step so far; 0: none. Safe from several threads.
  CallPosition Next(uint32_t step, uint32_t marks, int grad_acc_steps) noexcept {
    // The mark is part of the key, so that the count starts anew with each micro-batch.
    const uint32_t micro = std::min(marks == 0 ? 0 : marks - 1, uint32_t{0xffff});
    uint64_t old = state_.load(std::memory_order_relaxed);
    uint64_t key = (uint64_t{step} << 32) | (uint64_t{micro} << 16);
    uint32_t calls = 0;
    do {
      calls = (old & ~uint64_t{0xffff}) == key ? static_cast<uint32_t>(old & 0xffff) : 0;
    } while (
        !state_.compare_exchange_weak(old, key | std::min(calls + 1, uint32_t{0xffff}), std::memory_order_relaxed));
    if (marks > 0) return {static_cast<int32_t>(micro), static_cast<uint16_t>(calls)};
    const uint32_t last = static_cast<uint32_t>(std::max(grad_acc_steps, 1) - 1);
    return {static_cast<int32_t>(std::min(calls, last)), static_cast<uint16_t>(calls - std::min(calls, last))};
  }

 private:
  std::atomic<uint64_t> state_{uint64_t{0xffffffff} << 32};  // step, micro-batch, calls
};

}  // namespace stepwatch::front_end
