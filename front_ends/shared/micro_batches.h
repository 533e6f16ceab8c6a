// Determines the micro-batch of a forward call, and the number of the call within it.
//
// Frameworks do not announce micro-batches, so they are inferred, in this order:
//   1. marked: BeginMicroBatch was called in this step; micro-batch k lies between its (k+1)-th call and the next;
//   2. the chunk's root module is itself watched: it is entered in training mode once per micro-batch;
//   3. otherwise each module counts its own calls: call n of a step belongs to micro-batch n while n < grad_acc_steps;
//      every further call belongs to the last one. A module that is called twice per forward is then counted correctly
//      only when grad_acc_steps is 1: watch the root or mark the micro-batches.
// Calls before the first mark of a step belong to its first micro-batch. All counts restart from 0 at every step.
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

// Counts events within a step. Any number that changes between steps identifies the step.
class StepCounter {
 public:
  // Returns the events of this step so far, these included.
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

// Counts the calls of one module.
class CallCounter {
 public:
  // `marks`: marks or root entries of this step so far; 0: none. Thread-safe.
  CallPosition Next(uint32_t step, uint32_t marks, int grad_acc_steps) noexcept {
    // The mark is part of the key, so that the count restarts with each micro-batch.
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
