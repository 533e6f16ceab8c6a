#include "src/device/graph_clock.h"

#include <algorithm>

namespace stepwatch::device {

bool GraphClock::EndStepOf(kernels::DeviceStep* step) noexcept {
  Clock& clock = clocks_[static_cast<size_t>(step->device)];
  const uint32_t end_before = clock.end;
  clock.end = step->end = devices_->Graphs(step->device)->end();
  if (!clock.on) return false;
  const StatusCode code = devices_->Made(step->device)->EndGraphStep(clock.stream, &step->number);
  if (code != StatusCode::kOk) {
    // A graph captured in this very step counts as not replayed yet: the boundary lies inside of the capture.
    clock.ambiguous = std::max(clock.ambiguous, end_before);
    devices_->NoteRefusal(step->device, code);
    return false;
  }
  step->first = clock.ambiguous;
  clock.ambiguous = 0;
  return true;
}

void GraphClock::Switch(bool on) noexcept {
  for (uint64_t left = devices_->captured_devices(); left != 0; left &= left - 1) {
    const int device = __builtin_ctzll(left);
    Clock& clock = clocks_[static_cast<size_t>(device)];
    // If it fails, the next boundary tries again.
    if (clock.on != on && devices_->Made(device)->SwitchGraphs(clock.stream, on) == StatusCode::kOk) clock.on = on;
  }
}

}  // namespace stepwatch::device
