// The engines for tensors in device memory: one for each device, created before its first tensor or with it.
//
// In the steady state no call locks or allocates; creating an engine does both, once for each device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device_engine.h"
#include "src/base/mutex.h"
#include "src/device/graph_table.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::device {

// Creates the engine of one CUDA device, with room for `results` results. The message of an error is shown to the user.
using MakeDeviceEngine =
    std::function<Result<std::unique_ptr<kernels::DeviceEngine>>(int device_index, size_t results)>;

// Tickets whose results are not needed, on their way to the reader, the only thread that may return them to the device.
// Neither side waits or allocates.
class RetiredTickets {
 public:
  // `tickets`: the largest number of pending tickets, so that there is always a free place.
  explicit RetiredTickets(size_t tickets);
  void Add(uint64_t ticket) noexcept;
  // Reader.
  template <class Take>
  void TakeAll(const Take& take) noexcept {
    if (waiting_.load(std::memory_order_relaxed) == 0) return;
    (void)waiting_.exchange(0, std::memory_order_acquire);
    for (size_t i = 0; i <= mask_; ++i)
      if (const uint64_t kept = cells_[i].exchange(0, std::memory_order_acquire)) take(kept - 1);
  }

 private:
  const size_t mask_;
  const std::unique_ptr<std::atomic<uint64_t>[]> cells_;  // 0: free; otherwise a ticket plus one
  std::atomic<size_t> next_{0};
  std::atomic<size_t> waiting_{0};
};

class Devices {
 public:
  static constexpr int kDevicesMax = 64;

  // Without `make` there are no device engines.
  Devices(MakeDeviceEngine make, size_t results_max);

  // Tensors without an engine are measured by the front end, so a missing engine is not reported. Must precede any
  // other call.
  void OthersMeasure() noexcept;

  size_t results_max() const { return results_max_; }

  // --- threads of the trainer ---

  // The engine of a device, created by the first call for it, which takes tens of milliseconds. Null if unavailable.
  kernels::DeviceEngine* Get(Device device) noexcept;
  // The reader returns the ticket to the device in Sweep; any thread.
  void Retire(int index, uint64_t ticket) noexcept;
  // Records as a bit that a tensor could not be measured; the reader reports it later.
  void Note(Device device, StatusCode code) noexcept;
  // Stores an observation of a captured graph; requires an engine for the device.
  void Keep(int index, size_t slot, const CapturedObservation& observation) noexcept;
  // Records that no slot was left for an observation.
  void NoteNoSlot(int index) noexcept;
  // Records that a device step could not be ended.
  void NoteRefusal(int index, StatusCode code) noexcept;
  // A bit for each device with observations by captured graphs.
  uint64_t captured_devices() const noexcept { return captured_.load(std::memory_order_acquire); }

  // --- the reader's thread ---

  kernels::DeviceEngine* Made(int index) noexcept;  // also called by the trainer
  const GraphTable* Graphs(int index) const noexcept { return slots_[static_cast<size_t>(index)].graphs.get(); }
  // Records a capture with an eps other than the plan's.
  void NoteOtherEps(int index) noexcept;
  // Returns the retired tickets to the devices.
  void Sweep() noexcept;
  // Adds the time of measurements on each device, by account.
  void TakeTimes(kernels::DeviceTimes* ns) noexcept;
  // Reasons why tensors cannot be measured: sentences, each reason once for each device.
  std::vector<std::string> TakeDiagnostics();

 private:
  struct Slot {
    std::atomic<kernels::DeviceEngine*> engine{nullptr};
    std::atomic<bool> failed{false};
    std::atomic<uint8_t> diagnostics{0};  // a bit for each kind
    std::unique_ptr<kernels::DeviceEngine> owned;
    std::unique_ptr<RetiredTickets> retired;
    std::unique_ptr<GraphTable> graphs;
    std::string reason;    // why there is no engine, if `failed`
    uint8_t reported = 0;  // reader only
  };

  kernels::DeviceEngine* Make(int index) noexcept;
  void Note(Slot* slot, uint8_t trouble) noexcept;

  const MakeDeviceEngine make_;
  const size_t results_max_;
  base::Mutex making_;
  std::array<Slot, kDevicesMax> slots_;
  Slot cpu_;
  std::atomic<uint64_t> captured_{0};
  std::atomic<uint32_t> noted_{0};
  uint32_t seen_noted_ = 0;  // reader only
};

}  // namespace stepwatch::device
