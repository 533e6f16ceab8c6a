// The step thread's side of captured CUDA graphs: tells each device where a step of the training ends, and switches its
// captured measurements on for the steps that are collected.
//
// Step thread only, between steps. Makes no call into a driver unless something was captured, and then only around
// steps that are collected.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/device_engine.h"
#include "src/device/devices.h"

namespace stepwatch::device {

class GraphClock {
 public:
  explicit GraphClock(Devices* devices) : devices_(devices) {}

  // Graphs of the device are replayed on this stream; otherwise on the legacy default stream.
  void SetStream(Device device, void* stream) noexcept {
    if (device.kind == DeviceKind::kCuda && device.index >= 0 && device.index < Devices::kDevicesMax)
      clocks_[static_cast<uint8_t>(device.index)].stream = stream;
  }

  // A step is over. tell(kernels::DeviceStep) is called for each device on which something may have been measured in
  // it.
  template <class Tell>
  void EndStep(const Tell& tell) noexcept {
    for (uint64_t left = devices_->captured_devices(); left != 0; left &= left - 1) {
      kernels::DeviceStep step;
      step.device = __builtin_ctzll(left);
      if (EndStepOf(&step)) tell(step);
    }
  }
  // For the step about to begin.
  void Switch(bool on) noexcept;

 private:
  struct Clock {
    void* stream = nullptr;
    bool on = true;          // the device's switch, as it was at first
    uint32_t end = 0;        // slots at the last end of a step
    uint32_t ambiguous = 0;  // slots below this may hold numbers of a step that could not be ended
  };

  bool EndStepOf(kernels::DeviceStep* step) noexcept;

  Devices* const devices_;
  std::array<Clock, Devices::kDevicesMax> clocks_;
};

}  // namespace stepwatch::device
