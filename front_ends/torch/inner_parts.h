// Forward and backward of collected steps as parts of the step's time: the times of the training thread, by the clock
// of the monitor. They are known for a model in CPU memory, in a process that does not use CUDA.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "stepwatch/part_scope.h"

namespace stepwatch::torch_front {

// One for each monitor.
class InnerParts {
 public:
  // Prepares to measure for a monitor, which must live until Close.
  void Open(Monitor* monitor);
  void Close() noexcept;
  // Whether all parameters are in CPU memory. Takes effect at once if not.
  void SetModel(bool is_in_cpu_memory) noexcept;
  // A step begins behind another one, on the thread that ends the steps. Not for the first step: its parts are not
  // known, and LibTorch's engine starts its threads in it. Neither locks nor allocates.
  void BeginStep(bool is_collected) noexcept;

  // In a forward of the root of a model in training mode. Counts it until the scope ends, if the step is measured, on
  // this thread, and no pass repeats this forward.
  void BeginForward(std::optional<PartScope>* scope) const noexcept;

 private:
  void Stop() noexcept;

  Monitor* monitor_ = nullptr;
  bool is_in_cpu_memory_ = false;
  std::atomic<std::thread::id> thread_{};  // of the measured step; none: it is not measured
};

}  // namespace stepwatch::torch_front
