#include "front_ends/torch/inner_parts.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>

#include "front_ends/torch/backward_passes.h"

namespace stepwatch::torch_front {
namespace {

// With CUDA in use the weights may be only kept in CPU memory (offloading), and the work may be on a device.
bool UsesCuda() noexcept try {
  return c10::impl::hasDeviceGuardImpl(c10::kCUDA) && c10::getDeviceAllocator(c10::kCUDA)->initialized();
} catch (const std::exception&) {  // a CUDA with another allocator
  return true;
}

}  // namespace

void InnerParts::Open(Monitor* monitor) {
  (void)BackwardPasses::OfProcess();  // allocates
  monitor_ = monitor;
}

void InnerParts::Close() noexcept {
  Stop();
  monitor_ = nullptr;
}

void InnerParts::SetModel(bool is_in_cpu_memory) noexcept {
  is_in_cpu_memory_ = is_in_cpu_memory;
  if (!is_in_cpu_memory) Stop();
}

void InnerParts::BeginStep(bool is_collected) noexcept {
  if (!is_collected || monitor_ == nullptr || !is_in_cpu_memory_ || UsesCuda()) return Stop();
  thread_.store(std::this_thread::get_id(), std::memory_order_release);
  BackwardPasses::OfProcess().Add(monitor_);
}

void InnerParts::Stop() noexcept {
  if (thread_.load(std::memory_order_relaxed) == std::thread::id()) return;
  thread_.store(std::thread::id(), std::memory_order_relaxed);
  BackwardPasses::OfProcess().Remove(monitor_);
}

void InnerParts::BeginForward(std::optional<PartScope>* scope) const noexcept {
  const bool is_measured_here = thread_.load(std::memory_order_acquire) == std::this_thread::get_id();
  if (is_measured_here && torch::autograd::get_current_graph_task_id() == -1)
    scope->emplace(monitor_, StepPart::kForward);
}

}  // namespace stepwatch::torch_front
