// The face of an engine that measures later: tensors in device memory, queued on the stream that produced them.
//
// A measurement is asked for by Enqueue, which gives a ticket; the result is fetched with the ticket by Harvest on
// another thread, which looks at ordinary memory and makes no call into the device's driver.
//
// On a stream that captures a CUDA graph there is no ticket, which would be the same at every replay. The measurement
// gets a slot for good, and each replay writes to it under the number of the device step in which it runs. EndGraphStep
// ends a device step from outside of the graph, in the order of a stream, so the host knows which step of the training
// it was. A result is read by slot and device step, once that step is over: if a graph was replayed more than once in
// it, the last replay's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace stepwatch::kernels {

// One measurement asked for: `tensor` goes in; `ticket` comes out if `code` is kOk. `captured`: it is part of a graph
// now, and `ticket` is its slot.
struct DeviceItem {
  TensorView tensor;
  uint64_t ticket = 0;
  // kExhausted: all result slots wait for a reader that is late; captured: there is no slot left. kUnsupported: not
  // this dtype, layout or device. kInvalid: a view that contradicts itself. kUnavailable: the device refused the
  // launch.
  StatusCode code = StatusCode::kOk;
  bool captured = false;
  uint8_t account = 0;  // whose time the measurement is, below kDeviceAccounts; goes in
};

// Time by account, in nanoseconds.
inline constexpr size_t kDeviceAccounts = 32;
using DeviceTimes = std::array<uint64_t, kDeviceAccounts>;

// What became of a slot in a device step.
enum class GraphAnswer : uint8_t {
  kNotYet,  // the step is not over on the device
  kThere,   // the numbers are those of the step's last replay
  kNone,    // its graph was not replayed in this step, or measuring was switched off
  kLost,    // the reader came too late to tell: the place belongs to a later step
};

// A step of the training as a device knows it.
struct DeviceStep {
  int device = 0;
  uint64_t number = 0;
  // The slots that existed at its end. Those below `first` may have been written in an earlier step of the training.
  uint32_t first = 0;
  uint32_t end = 0;
};

class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;

  // --- threads of the trainer ---

  // Queues the measurement of `count` tensors of this engine's device, in as few launches as possible, on the stream of
  // each view. Waits for nothing and allocates nothing. The memory may be overwritten by work queued on that stream
  // afterwards.
  virtual void Enqueue(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept = 0;
  // Queues the sign agreement of two tensors, on the stream of the first, which comes back as the item's tensor. Its
  // result is the agreement in `Statistics::mean`, with numel that of the tensors and nothing else set.
  virtual DeviceItem EnqueueAgreement(const TensorView& a, const TensorView& b, uint8_t account) noexcept = 0;

  // Whether a measurement on this stream would become part of a graph.
  virtual bool IsCapturing(void* stream) noexcept = 0;
  // Slots are numbered from 0 to one less than this, in the order in which they are given.
  virtual size_t graph_slots() const noexcept = 0;
  // The device step that `*ended` names is over when all is done that was queued on `stream` by now. kUnsupported:
  // nothing may be queued there because a graph is being captured; kUnavailable: the device refused. Then the step goes
  // on.
  virtual StatusCode EndGraphStep(void* stream, uint64_t* ended) noexcept = 0;
  // What is replayed after the work that was queued on `stream` by now measures, as it does at first, or does nothing
  // but look at this switch. Errors as above.
  virtual StatusCode SwitchGraphs(void* stream, bool on) noexcept = 0;

  // --- the reader's thread: one at a time ---

  // True, once for a ticket, when its result is there; the ticket is then used up.
  virtual bool Harvest(uint64_t ticket, Statistics* statistics) noexcept = 0;
  // Nobody will ask for this ticket again; its slot is reused after the device has written to it.
  virtual void Discard(uint64_t ticket) noexcept = 0;
  // Adds what the device took for measurements since the last call, as far as it is through with them; those of
  // captured graphs are not among them. Unlike the others here it asks the driver, which does not wait.
  virtual void TakeTimes(DeviceTimes* ns) noexcept = 0;
  // As often as one likes.
  virtual GraphAnswer HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept = 0;
};

struct DeviceEngineOptions {
  int device = 0;
  // Results that may wait for the reader at once, rounded up to a power of two.
  size_t slots = 16384;
  // Measure on a stream of our own, of lowest priority, beside the producer's. The producer's stream waits for it
  // before its next work, so that nothing is overwritten too early.
  bool side_stream = false;
  // Measurements that captured graphs may hold, 0: none. Each takes 1 KB of pinned memory for `graph_depth` steps that
  // the reader may be late, and kGraphScratchPerSlot on the device.
  size_t graph_slots = 4096;
  uint32_t graph_depth = 16;
};

// For partial results, 64 bytes for each 64 KB captured, from a store that all slots share.
inline constexpr size_t kGraphScratchPerSlot = 8192;

// Allocates all that the engine will ever use, on the calling thread: tens of milliseconds. kUnsupported: this build
// has no CUDA engine, or the machine no such device; the message says which and what to do.
Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions& options);

// What `stepwatch doctor` says of the CUDA side.
struct CudaReport {
  bool built = false;
  int devices = 0;
  std::string reason;     // why there is no engine; empty if there is
  const char* code = "";  // the architectures whose device code is embedded, with spaces between: "sm_80 sm_90"
};
CudaReport AskCuda();

}  // namespace stepwatch::kernels
