// State shared by taps, hooks in autograd graphs and the TorchMonitor. Owns no tensor and no module, so a graph that
// outlives the monitor keeps only this alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/reporter.h"
#include "front_ends/shared/structure.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/event.h"
#include "stepwatch/recorder.h"

namespace at {
class Tensor;
}

namespace stepwatch::front_end {
template <class Tensors>
class CallGradients;
}

namespace stepwatch::torch_front {

struct TorchTensors;
using CallGradients = front_end::CallGradients<TorchTensors>;

// State shared with other front ends.
using front_end::CallCounter;
using front_end::CallPosition;
using front_end::kNoSite;
using front_end::ModuleSites;
using front_end::Reporter;
using front_end::StepCounter;
using front_end::StructureRecorder;

struct Context {
  // Grows whenever the wanted sites change: site ids that a hook carries hold for one generation only.
  std::atomic<uint64_t> generation{1};
  std::atomic<Recorder*> recorder{nullptr};  // null once closed
  std::atomic<uint32_t> step{0};             // changes at every end of a step
  int grad_acc_steps = 1;
  StepCounter marks;                             // BeginMicroBatch
  std::shared_ptr<StructureRecorder> structure;  // while print_struct wants one; changes between steps only
  Reporter reporter;

  // The recorder if this step is collected, else null.
  Recorder* Collecting() const noexcept {
    Recorder* current = recorder.load(std::memory_order_acquire);
    return current != nullptr && current->collecting() ? current : nullptr;
  }
  // The same for a hook that was made in the generation `made`.
  Recorder* CollectingSince(uint64_t made) const noexcept {
    return generation.load(std::memory_order_acquire) == made ? Collecting() : nullptr;
  }

  // Records that a parameter has had this many backward passes in this step. Warns once if they are so many that steps
  // do not seem to end. Any thread.
  void NotePasses(uint32_t passes) noexcept;

  // Warns once that a module returns a type that is not searched for tensors.
  void SayUnreadable(const std::string& module) noexcept;

  // Forward passes without gradients, such as rollouts, are unlimited in number between two steps. Their rows are
  // limited to those of one step of training; further calls are left out, so that later gradients have room.
  void SetPlacesWithoutGradient(size_t planned_rows) noexcept;
  // False: the call is left out, and counted.
  bool AdmitWithoutGradient() noexcept;
  void NoteRowsWithoutGradient(size_t rows) noexcept {
    (void)rows_without_gradient_.Add(step.load(std::memory_order_relaxed), static_cast<uint32_t>(rows));
  }
  uint64_t calls_left_out() const noexcept { return calls_left_out_.load(std::memory_order_relaxed); }

  // The call has its first gradient: adds the rows of inputs that no node uses, since their gradients cannot come, and
  // keeps the call until the end of the step.
  void AddAnswered(std::shared_ptr<CallGradients> call);
  // Finishes those calls. Step thread, at the end of the step.
  void FinishCalls() noexcept;

  void Observe(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor);
  // False if there is nothing to enqueue.
  bool Measure(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record);

 private:
  StepCounter rows_without_gradient_;
  uint32_t places_without_gradient_ = 0;  // changes between steps only
  std::atomic<uint64_t> calls_left_out_{0};
  std::atomic<bool> said_no_step_{false};
  std::atomic<bool> said_unreadable_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<CallGradients>> answered_;  // guarded by mutex_
};

// Runs a function of Stepwatch on the training thread: an exception ends here and is reported once.
template <class F>
void Guarded(Context& context, const char* where, const F& f) noexcept {
  front_end::Guarded(context.reporter, where, f);
}

}  // namespace stepwatch::torch_front
