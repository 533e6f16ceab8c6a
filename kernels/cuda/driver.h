// The operations that the engine needs of a CUDA device: real in cuda_driver.cc, emulated in the tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

using Stream = void*;

// Number of timing events of a device.
inline constexpr size_t kMarks = 128;

// Pinned host memory that the device can read and write.
struct Mapped {
  void* host = nullptr;
  void* device = nullptr;
};

enum class Capturing : uint8_t {
  kNo,
  kYes,      // queued work is recorded into a CUDA graph
  kBlocked,  // queuing is forbidden now: the legacy stream while another captures, or a failed capture
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual uint32_t multiprocessors() const = 0;
  virtual bool slow_fp64() const = 0;

  // Zeroed memory that lives as long as the driver; null if allocation fails.
  virtual void* AllocateDevice(size_t bytes) = 0;
  virtual Mapped AllocateMapped(size_t bytes) = 0;

  // Each queues work without waiting; false: the device rejected it.
  virtual bool Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept = 0;
  virtual bool Upload(void* device, const void* pinned, size_t bytes, Stream stream) noexcept = 0;
  // Queues `*step` += 1 on the device, then copies it to `*done` in mapped memory. When the host sees `*done`, it also
  // sees all work queued on the stream before.
  virtual bool Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept = 0;
  // Work queued on `later` from now on runs after all work already queued on `earlier`.
  virtual bool Order(Stream earlier, Stream later) noexcept = 0;

  // Records a timing event, numbered below kMarks, behind the work already queued on `stream`.
  virtual bool Mark(size_t mark, Stream stream) noexcept = 0;
  // The time between two marks; false: the device has not reached the second one, or an error. Runs on a thread of the
  // monitor.
  virtual bool Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept = 0;

  virtual Capturing CaptureStateOf(Stream stream) noexcept = 0;
  // A private stream of the lowest priority.
  virtual Stream side_stream() noexcept = 0;
  // Keeps the memory when the driver is destroyed, because captured graphs hold its addresses.
  virtual void KeepMemory() noexcept = 0;
};

// Enough blocks to fill the device with four per multiprocessor, as the kernels are compiled for.
inline uint32_t GridFor(const Driver& driver, uint32_t tiles) {
  const uint32_t full = 4 * driver.multiprocessors();
  return tiles < full ? tiles : full;
}

}  // namespace stepwatch::kernels::cuda
