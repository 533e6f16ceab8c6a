// The step thread's side of captured CUDA graphs: marks on each device the end of a training step, and enables its
// captured measurements for collected steps.
//
// Step thread only, between steps. Calls the driver only after a capture, and then only around collected steps.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/device_engine.h"
#include "src/device/devices.h"

namespace stepwatch::device {

class GraphClock {
 public:
  explicit GraphClock(Devices* devices) : devices_(devices) {}

  // Sets the stream on which the device's graphs are replayed; the default is the legacy default stream.
  void SetStream(Device device, void* stream) noexcept {
    if (device.kind == DeviceKind::kCuda && device.index >= 0 && device.index < Devices::kDevicesMax)
      clocks_[static_cast<uint8_t>(device.index)].stream = stream;
  }

  // Ends a step. Calls report(kernels::DeviceStep) for each device on which measurements may have run in it.
  template <class Report>
  void EndStep(const Report& report) noexcept {
    for (uint64_t left = devices_->captured_devices(); left != 0; left &= left - 1) {
      kernels::DeviceStep step;
      step.device = __builtin_ctzll(left);
      if (EndStepOf(&step)) report(step);
    }
  }
  // Switches measurements for the step about to begin.
  void Switch(bool on) noexcept;

 private:
  struct Clock {
    void* stream = nullptr;
    bool on = true;          // the device's switch; initially on
    uint32_t end = 0;        // slots at the end of the last step
    uint32_t ambiguous = 0;  // slots below this may hold results of a step that could not be ended
  };

  bool EndStepOf(kernels::DeviceStep* step) noexcept;

  Devices* const devices_;
  std::array<Clock, Devices::kDevicesMax> clocks_;
};

}  // namespace stepwatch::device
