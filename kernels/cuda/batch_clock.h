// What the device takes for the measurements of each account: batches between two timing events, which the reader asks
// for later.
//
// A batch of several tensors is timed if a pair of events is free, of single tensors one in kSinglesPerTimed. What is
// not timed is believed to run as fast, byte for byte, as the next batch that is. So nothing is left out, and a batch
// costs the trainer's thread two more calls at most.
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

  // The measurements of these items are queued on `stream` next. Returns the pair for End.
  size_t Begin(Driver* driver, const DeviceItem* items, size_t count, Stream stream) noexcept;
  void End(Driver* driver, size_t pair, Stream stream) noexcept;

  // --- the reader's thread ---

  // Adds the time of what the device has done since the last call, in nanoseconds by account.
  void TakeTimes(Driver* driver, DeviceTimes* ns) noexcept;

 private:
  struct Pair {
    std::atomic<bool> is_under_way{false};  // what follows is the reader's while it is
    DeviceTimes bytes{};                    // that its time stands for
    uint64_t timed_bytes = 0;
  };

  std::array<Pair, kPairs> pairs_;
  DeviceTimes untimed_bytes_{};
  size_t next_ = 0;       // pair to be used, in turns
  size_t next_read_ = 0;  // the reader's
  uint64_t singles_ = 0;
};

}  // namespace stepwatch::kernels::cuda
