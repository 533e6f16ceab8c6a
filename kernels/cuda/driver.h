// The few things that the engine asks of a CUDA device: real in cuda_driver.cc, an emulation in the tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

using Stream = void*;

// Timing events of a device.
inline constexpr size_t kMarks = 128;

// Pinned memory of the host that the device can read and write.
struct Mapped {
  void* host = nullptr;
  void* device = nullptr;
};

enum class Capturing : uint8_t {
  kNo,
  kYes,      // what is queued is recorded into a CUDA graph
  kBlocked,  // nothing may be queued now: the legacy stream while another captures, or a capture that has failed
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual uint32_t multiprocessors() const = 0;
  virtual bool slow_fp64() const = 0;

  // Zeroed memory that lives as long as the driver; null: there is none.
  virtual void* AllocateDevice(size_t bytes) = 0;
  virtual Mapped AllocateMapped(size_t bytes) = 0;

  // Each queues work and waits for nothing; false: the device refused.
  virtual bool Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept = 0;
  virtual bool Upload(void* device, const void* pinned, size_t bytes, Stream stream) noexcept = 0;
  // `*step` += 1 on the device; then the host, through mapped memory, sees it in `*done`, and with it all that was
  // queued on the stream before.
  virtual bool Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept = 0;
  // Work queued on `later` from now on runs after all that is queued on `earlier` by now.
  virtual bool Order(Stream earlier, Stream later) noexcept = 0;

  // Work queued on `stream` by now is done at the time of this mark, below kMarks.
  virtual bool Mark(size_t mark, Stream stream) noexcept = 0;
  // The time between two marks; false: the device has not come to the second one, or refused. On a thread of ours.
  virtual bool Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept = 0;

  virtual Capturing AskCapturing(Stream stream) noexcept = 0;
  // A stream of our own, of the lowest priority.
  virtual Stream side_stream() noexcept = 0;
  // Somebody else holds addresses of this memory, for ever: it is not freed with the driver.
  virtual void KeepMemory() noexcept = 0;
};

// Enough blocks to fill the device at four a multiprocessor, as the kernels are compiled for.
inline uint32_t GridFor(const Driver& driver, uint32_t tiles) {
  const uint32_t full = 4 * driver.multiprocessors();
  return tiles < full ? tiles : full;
}

}  // namespace stepwatch::kernels::cuda
