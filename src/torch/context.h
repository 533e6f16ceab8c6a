// What taps, hooks in autograd graphs and the TorchMonitor share. Owns no tensor and no module, so a graph that lives
// longer than the monitor keeps only this alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "src/torch/micro_batches.h"
#include "src/torch/structure.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"

namespace at {
class Tensor;
}

namespace stepwatch::torch_front {

inline constexpr SiteId kNoSite = ~SiteId{0};

// Tells events that arise in the front end. Shares a lock with the core's, so that the user's function is never called
// twice at once. Nothing here throws.
class Reporter {
 public:
  explicit Reporter(std::function<void(const Event&)> on_event) : on_event_(std::move(on_event)) {}

  void Tell(const Event& event);
  void Warn(std::string message) noexcept;
  // Once per kind for the life of the monitor.
  void Unmeasurable(SiteKind kind, const char* problem) noexcept;
  // Once for the life of the monitor: the first exception of torch or of ours on the training thread.
  void Caught(const char* where, const char* what) noexcept;

 private:
  std::mutex mutex_;
  std::function<void(const Event&)> on_event_;
  std::atomic<uint32_t> unmeasurable_{0};  // a bit per SiteKind
  std::atomic<bool> caught_{false};
};

struct Context {
  explicit Context(std::function<void(const Event&)> on_event) : reporter(std::move(on_event)) {}

  // Grows whenever the wanted sites change: site ids that a hook carries hold for one generation only.
  std::atomic<uint64_t> generation{1};
  std::atomic<Monitor*> monitor{nullptr};  // null once closed
  std::atomic<uint32_t> step{0};           // changes at every end of a step
  int grad_acc_steps = 1;
  StepCounter marks;                         // BeginMicroBatch
  std::shared_ptr<StructureBook> structure;  // while print_struct wants one; changes between steps only
  Reporter reporter;

  // The monitor if this step is collected, else null.
  Monitor* Collecting() const noexcept {
    Monitor* current = monitor.load(std::memory_order_acquire);
    return current != nullptr && current->collecting() ? current : nullptr;
  }
  // The same for a hook that was made under `made`.
  Monitor* CollectingSince(uint64_t made) const noexcept {
    return generation.load(std::memory_order_acquire) == made ? Collecting() : nullptr;
  }

  void Observe(Monitor& to, SiteKind kind, const Observation& at, const at::Tensor& tensor);
  // False if there is nothing to enqueue.
  bool Measure(Monitor& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record);
};

// Runs something of ours on the training thread: whatever it throws ends here, told once.
template <class F>
void Guarded(Context& context, const char* where, const F& f) noexcept {
  try {
    f();
  } catch (const std::exception& e) {
    context.reporter.Caught(where, e.what());
  } catch (...) {
    context.reporter.Caught(where, "an unknown exception");
  }
}

}  // namespace stepwatch::torch_front
