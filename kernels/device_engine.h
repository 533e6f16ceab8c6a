// The face of an engine that measures later: tensors in device memory, queued on the stream that produced them.
//
// A measurement is asked for by Enqueue, which gives a ticket; the result is fetched with the ticket by Harvest on
// another thread, which looks at ordinary memory and makes no call into the device's driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/kernels.h"

namespace stepwatch::kernels {

// One measurement asked for: `tensor` goes in; `ticket` comes out if `code` is kOk.
struct DeviceItem {
  TensorView tensor;
  uint64_t ticket = 0;
  // kExhausted: all result slots wait for a reader that is late. kUnsupported: not this dtype, layout or device.
  // kInvalid: a view that contradicts itself. kUnavailable: the device refused the launch.
  StatusCode code = StatusCode::kOk;
};

class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;

  // --- threads of the trainer ---

  // Queues the measurement of `count` tensors of this engine's device, in as few launches as possible, on the stream of
  // each view. Waits for nothing and allocates nothing. The memory may be overwritten by work queued on that stream
  // afterwards.
  virtual void Enqueue(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept = 0;
  // Queues the sign agreement of two tensors; its result is the agreement in `Statistics::mean`, with numel that of
  // the tensors and nothing else set. Codes as in DeviceItem.
  virtual StatusCode EnqueueAgreement(const TensorView& a, const TensorView& b, uint64_t* ticket) noexcept = 0;

  // --- the reader's thread: one at a time ---

  // True, once for a ticket, when its result is there; the ticket is then used up.
  virtual bool Harvest(uint64_t ticket, Statistics* statistics) noexcept = 0;
  // Nobody will ask for this ticket again; its slot is reused after the device has written to it.
  virtual void Abandon(uint64_t ticket) noexcept = 0;
};

struct DeviceEngineOptions {
  int device = 0;
  // Results that may wait for the reader at once, rounded up to a power of two.
  size_t slots = 16384;
  // Measure on a stream of our own, of lowest priority, beside the producer's. The producer's stream waits for it
  // before its next work, so that nothing is overwritten too early.
  bool side_stream = false;
};

// Allocates all that the engine will ever use, on the calling thread: tens of milliseconds. kUnsupported: this build
// has no CUDA engine, or the machine no such device; the message says which and what to do.
Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions& options);

// What `stepwatch doctor` says of the CUDA side.
struct CudaReport {
  bool built = false;
  int devices = 0;
  const char* reason = "";  // why there is no engine; empty if there is
};
CudaReport AskCuda();

}  // namespace stepwatch::kernels
