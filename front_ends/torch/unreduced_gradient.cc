#include "front_ends/torch/unreduced_gradient.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace stepwatch::torch_front {

namespace ag = torch::autograd;

// Owned by the tensor, which may outlive the monitor: what it needs is shared.
class UnreducedGradient::Hook final : public ag::PostAccumulateGradHook {
 public:
  Hook(std::shared_ptr<UnreducedGradient> gradient, std::unique_ptr<PostAccumulateGradHook> next)
      : gradient_(std::move(gradient)), next_(std::move(next)) {}
  ~Hook() override {
    if (gradient_->hook_ == this) gradient_->hook_ = nullptr;
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  // The one that was there before may free the gradient, or update by it. A hook that was given up while somebody
  // else's was around it stays with its tensor, which may have no name any more, or another one.
  void operator()(const at::Tensor& parameter) override {
    if (gradient_->hook_ == this) gradient_->OnAccumulated(parameter);
    if (next_ != nullptr) (*next_)(parameter);
  }

  std::unique_ptr<PostAccumulateGradHook> TakeNext() { return std::move(next_); }

 private:
  const std::shared_ptr<UnreducedGradient> gradient_;
  std::unique_ptr<PostAccumulateGradHook> next_;
};

void UnreducedGradient::Want(SiteId site, bool each_micro_batch) noexcept {
  DiscardKept();
  site_ = site;
  each_ = each_micro_batch;
  is_updating_ = false;
}

void UnreducedGradient::Hang(const at::Tensor& parameter) {
  if (hook_ != nullptr || !parameter.is_leaf()) return;
  std::unique_ptr<ag::PostAccumulateGradHook> next;
  if (ag::impl::get_autograd_meta(parameter) != nullptr) next = std::move(ag::impl::post_acc_grad_hooks(parameter));
  auto hook = std::make_unique<Hook>(shared_from_this(), std::move(next));
  Hook* const hung = hook.get();
  ag::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
  hook_ = hung;
}

// A hook that somebody else has wrapped stays, and does nothing.
void UnreducedGradient::TakeOff(const at::Tensor& parameter) noexcept {
  DiscardKept();
  if (hook_ == nullptr || !parameter.defined()) return;
  std::unique_ptr<ag::PostAccumulateGradHook>& place = ag::impl::post_acc_grad_hooks(parameter);
  if (place.get() == hook_) place = hook_->TakeNext();
  hook_ = nullptr;
}

void UnreducedGradient::OnAccumulated(const at::Tensor& parameter) noexcept {
  Guarded(*context_, "the hook of an un-reduced gradient", [&] {
    if (!wanted()) return;
    const uint32_t step = context_->step.load(std::memory_order_relaxed);
    const uint32_t passes = passes_.Add(step);
    if (is_updating_) return;
    context_->NotePasses(passes);
    Recorder* const recorder = context_->Collecting();
    if (recorder == nullptr || !parameter.grad().defined()) return;
    const Updates updates = UpdatesOf(step);
    Observe(*recorder, parameter.grad(), passes - updates.passes, updates.begun);
  });
}

void UnreducedGradient::Observe(Recorder& recorder, const at::Tensor& gradient, uint32_t pass, uint16_t update) {
  DiscardKept();
  const auto announced = static_cast<uint32_t>(context_->grad_acc_steps);
  const uint32_t micro_step = (each_ ? pass : std::min(pass, announced)) - 1;
  const Observation at{site_, static_cast<int32_t>(micro_step), kNoElement, update};
  if (each_ || (update == 0 && pass % announced == 0)) {
    context_->Observe(recorder, SiteKind::kGradUnreduced, at, gradient);
  } else if (Record record; context_->Measure(recorder, SiteKind::kGradUnreduced, at, gradient, &record)) {
    kept_ = record;
    kept_step_ = context_->step.load(std::memory_order_relaxed);
  }
}

void UnreducedGradient::BeginUpdate(Recorder& recorder, uint16_t update) noexcept {
  EnqueueKept(recorder);
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  updates_ = {step, passes_.Count(step), static_cast<uint16_t>((update & ~kRepeatedUpdate) + 1)};
  is_updating_ = true;
}

void UnreducedGradient::EndUpdate() noexcept {
  is_updating_ = false;
  updates_.passes = passes_.Count(updates_.step);
}

void UnreducedGradient::AbandonUpdate() noexcept {
  if (is_updating_) --updates_.begun;
  EndUpdate();
}

// After an update, passes that no other update follows are those of another network's loss.
void UnreducedGradient::EndStep(Recorder& recorder) noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  if (UpdatesOf(step).begun > 0) return DiscardKept();
  EnqueueKept(recorder);
}

void UnreducedGradient::EnqueueKept(Recorder& recorder) noexcept {
  if (!kept_) return;
  if (kept_step_ != context_->step.load(std::memory_order_relaxed)) return DiscardKept();
  recorder.Enqueue(*kept_);
  kept_.reset();
}

void UnreducedGradient::DiscardKept() noexcept {
  Recorder* const recorder = context_->recorder.load(std::memory_order_acquire);
  if (kept_ && recorder != nullptr) recorder->Discard(*kept_);
  kept_.reset();
}

}  // namespace stepwatch::torch_front
