// Device time of measurements, by account. Batches are put between two timing events, which the reader queries later.
//
// A batch of several tensors is timed if a pair of events is free; of single tensors, one in kSinglesPerTimed. Work
// that is not timed is charged at the rate per byte of the next timed batch, so no work is left out. A batch costs the
// trainer's thread at most two extra calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/driver.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels::cuda {

class BatchClock {
 public:
  static constexpr size_t kPairs = kMarks / 2;
  static constexpr size_t kNoPair = kPairs;
  static constexpr uint64_t kSinglesPerTimed = 4;

  // --- threads of the trainer, one at a time ---

  // The measurements of these items are queued on `stream` next. Returns the pair to pass to End.
  size_t Begin(Driver* driver, const DeviceItem* items, size_t count, Stream stream) noexcept;
  void End(Driver* driver, size_t pair, Stream stream) noexcept;

  // --- the reader's thread ---

  // Adds the time of work that the device completed since the last call, in nanoseconds by account.
  void TakeTimes(Driver* driver, DeviceTimes* ns) noexcept;

 private:
  struct Pair {
    std::atomic<bool> is_under_way{false};  // true: the members below belong to the reader
    DeviceTimes bytes{};                    // covered by the measured time
    uint64_t timed_bytes = 0;
  };

  std::array<Pair, kPairs> pairs_;
  DeviceTimes untimed_bytes_{};
  size_t next_ = 0;       // next pair to use, round robin
  size_t next_read_ = 0;  // the reader's
  uint64_t singles_ = 0;
};

}  // namespace stepwatch::kernels::cuda
