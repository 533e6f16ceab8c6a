// State shared by taps, hooks in autograd's graph and the monitor of a front end. Owns no tensor and no module, so a
// graph that outlives the monitor keeps only this alive.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/shared/call_gradients.h"
#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/reporter.h"
#include "front_ends/shared/structure.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

// Limit of calls in one step that are processed again at its end; a program may never end a step.
inline constexpr size_t kAnsweredMax = size_t{1} << 18;

// Base of `Tensors::Context`, which has Measure(recorder, kind, observation, tensor, record): false if there is nothing
// to enqueue. `Tensors` is that of CallGradients, with
//   kReportsUnwatchedAtOnce   the first gradient of a call reports the missing ones that cannot come
//   StillClockText(passes)    the warning that no step has ended
template <class Tensors>
struct HookContext {
  using Call = CallGradients<Tensors>;

  // Grows whenever the wanted sites change: site ids that a hook carries hold for one generation only.
  std::atomic<uint64_t> generation{1};
  std::atomic<Recorder*> recorder{nullptr};  // null once closed
  std::atomic<uint32_t> step{0};             // changes at every end of a step
  int grad_acc_steps = 1;
  StepCounter marks;                             // of micro-batches that the program begins
  std::shared_ptr<StructureRecorder> structure;  // while print_struct wants one; changes between steps only
  Reporter reporter;

  // The recorder if this step is collected, else null.
  Recorder* Collecting() const noexcept {
    Recorder* const current = recorder.load(std::memory_order_acquire);
    return current != nullptr && current->collecting() ? current : nullptr;
  }

  template <class Tensor>
  void Observe(Recorder& to, SiteKind kind, const Observation& at, const Tensor& tensor) {
    Record record;
    if (static_cast<typename Tensors::Context*>(this)->Measure(to, kind, at, tensor, &record)) to.Enqueue(record);
  }

  // The call has its first gradient: keeps it until the end of the step.
  void AddAnswered(std::shared_ptr<Call> call) {
    if constexpr (Tensors::kReportsUnwatchedAtOnce) call->ReportUnwatched();
    const std::lock_guard<typename Tensors::Mutex> lock(mutex_);
    if (answered_.size() < kAnsweredMax) answered_.push_back(std::move(call));
  }
  // Takes these calls. At the end of the step each of them is finished, on the thread that ends it.
  std::vector<std::shared_ptr<Call>> TakeAnswered() noexcept {
    const std::lock_guard<typename Tensors::Mutex> lock(mutex_);
    return std::exchange(answered_, {});
  }
  void FinishCalls() noexcept {
    for (const std::shared_ptr<Call>& call : TakeAnswered()) call->Finish();
  }
  const std::vector<std::shared_ptr<Call>>& answered() const { return answered_; }

  // Records that a parameter has had this many backward passes in this step. Warns once if they are so many that steps
  // do not seem to end. Any thread.
  void NotePasses(uint32_t passes) noexcept {
    if (passes < kStepsOfPasses * std::max(static_cast<uint32_t>(grad_acc_steps), kPassesMin)) return;
    reporter.WarnOnce(&warned_still_clock_, [passes] { return Tensors::StillClockText(passes); });
  }

 private:
  // Above this number of backward passes in a step its end was probably missed: three times the announced number, and
  // more where few are announced.
  static constexpr uint32_t kStepsOfPasses = 3;
  static constexpr uint32_t kPassesMin = 32;

  std::atomic<bool> warned_still_clock_{false};
  typename Tensors::Mutex mutex_;
  std::vector<std::shared_ptr<Call>> answered_;  // guarded by mutex_
};

// Runs `f` of Stepwatch inside a hook: an exception does not leave it and is reported once.
template <class Tensors, class F>
void CatchAndReport(HookContext<Tensors>& context, const char* where, const F& f) noexcept {
  CatchAndReport(context.reporter, where, f);
}

}  // namespace stepwatch::front_end
