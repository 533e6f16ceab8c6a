// Interface of an engine that measures asynchronously: tensors in device memory, queued on the stream that produced
// them.
//
// Enqueue requests a measurement and returns a ticket; Harvest, on another thread, fetches the result by ticket from
// ordinary memory, without a call into the device's driver.
//
// A stream that captures a CUDA graph gives no ticket, which would be the same at every replay. The measurement has a
// permanent slot instead, and each replay writes to it under the number of the device step in which it runs.
// EndGraphStep ends a device step from outside of the graph, in stream order, so the host knows which training step it
// was. A result is read by slot and device step, once that step is over; if a graph was replayed more than once in it,
// the last replay's result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace stepwatch::kernels {

// A requested measurement: `tensor` is the input; `ticket` is set if `code` is kOk. `captured`: it is now part of a
// graph, and `ticket` is its slot.
struct DeviceItem {
  TensorView tensor;
  uint64_t ticket = 0;
  // kExhausted: all result slots wait for a late reader; captured: no slot is left. kUnsupported: this dtype, layout or
  // device is not supported. kInvalid: an inconsistent view. kUnavailable: the device rejected the launch.
  StatusCode code = StatusCode::kOk;
  bool captured = false;
  uint8_t account = 0;  // input: the account that is charged the time, below kDeviceAccounts
};

// Time by account, in nanoseconds.
inline constexpr size_t kDeviceAccounts = 32;
using DeviceTimes = std::array<uint64_t, kDeviceAccounts>;

// State of a slot in a device step.
enum class GraphAnswer : uint8_t {
  kNotYet,  // the step is not over on the device
  kThere,   // the numbers are those of the step's last replay
  kNone,    // the graph was not replayed in this step, or measuring was switched off
  kLost,    // the reader is too late: the row belongs to a later step
};

// A training step in the numbering of a device.
struct DeviceStep {
  int device = 0;
  uint64_t number = 0;
  // The slots that existed at its end. Those below `first` may have been written in an earlier training step.
  uint32_t first = 0;
  uint32_t end = 0;
};

class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;

  // --- threads of the trainer ---

  // Queues the measurement of `count` tensors of this engine's device, in as few launches as possible, on the stream of
  // each view. Never waits or allocates. Work queued on that stream afterwards may overwrite the memory.
  virtual void Enqueue(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept = 0;
  // Queues the sign agreement of two tensors, on the stream of the first, which is returned as the item's tensor. The
  // result is `Statistics::mean`, with numel that of the tensors; no other field is set.
  virtual DeviceItem EnqueueAgreement(const TensorView& a, const TensorView& b, uint8_t account) noexcept = 0;

  // True if a measurement on this stream would become part of a graph.
  virtual bool IsCapturing(void* stream) noexcept = 0;
  // Slots are numbered from 0 to one less than this, in order of assignment.
  virtual size_t graph_slots() const noexcept = 0;
  // Ends the device step `*ended` after all work already queued on `stream`. kUnsupported: a graph is being captured,
  // so queuing is forbidden; kUnavailable: the device rejected it. In both cases the step continues.
  virtual StatusCode EndGraphStep(void* stream, uint64_t* ended) noexcept = 0;
  // Replays queued on `stream` after this call measure, which is the default, or only check this switch. Errors as
  // above.
  virtual StatusCode SwitchGraphs(void* stream, bool on) noexcept = 0;

  // --- the reader's thread: one at a time ---

  // Returns true once per ticket, when its result is available; the ticket is then used up.
  virtual bool Harvest(uint64_t ticket, Statistics* statistics) noexcept = 0;
  // Gives the ticket up unread; its slot is reused after the device has written to it.
  virtual void Discard(uint64_t ticket) noexcept = 0;
  // Adds the device time of measurements completed since the last call, without those of captured graphs. Unlike the
  // other calls here it queries the driver, which does not block.
  virtual void TakeTimes(DeviceTimes* ns) noexcept = 0;
  // May be repeated.
  virtual GraphAnswer HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept = 0;
};

struct DeviceEngineOptions {
  int device = 0;
  // Results that may be pending at once, rounded up to a power of two.
  size_t slots = 16384;
  // Measure on a private stream of lowest priority, beside the producer's. The producer's stream waits for it before
  // its next work, so that tensors are not overwritten too early.
  bool side_stream = false;
  // Measurements that captured graphs may hold, 0: none. Each takes 1 KB of pinned memory for `graph_depth` steps that
  // the reader may lag, and kGraphScratchPerSlot on the device.
  size_t graph_slots = 4096;
  uint32_t graph_depth = 16;
};

// Partial results, 64 bytes for each 64 KB captured, from a pool that all slots share.
inline constexpr size_t kGraphScratchPerSlot = 8192;

// Allocates all memory of the engine, on the calling thread: tens of milliseconds. kUnsupported: this build has no CUDA
// engine, or the machine has no such device; the message names the cause and the remedy.
Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions& options);

// The CUDA part of `stepwatch doctor`.
struct CudaReport {
  bool built = false;
  int devices = 0;
  std::string reason;     // why the engine is unavailable; empty if it is available
  const char* code = "";  // architectures of the embedded device code, separated by blanks: "sm_80 sm_90"
};

// Initializes the CUDA driver, which lasts for the life of the process: it takes up to seconds, fixes the effect of
// CUDA_VISIBLE_DEVICES, and prevents children forked later from using a device.
CudaReport DetectCuda();

// For a process that may not want CUDA: never initializes the driver. A process that has not done so reports no
// devices, and the reason. Any thread.
CudaReport DetectCudaInUse();

}  // namespace stepwatch::kernels
