#include "front_ends/torch/unreduced_gradient.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace stepwatch::torch_front {

namespace ag = torch::autograd;

// Owned by the tensor, which may outlive the monitor, so the data it needs is shared.
class UnreducedGradient::Hook final : public ag::PostAccumulateGradHook {
 public:
  Hook(std::shared_ptr<UnreducedGradient> gradient, std::unique_ptr<PostAccumulateGradHook> next)
      : gradient_(std::move(gradient)), next_(std::move(next)) {}
  ~Hook() override {
    if (gradient_->hook_ == this) gradient_->hook_ = nullptr;
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  // The previous hook may free the gradient, or update by it. A hook that was given up while another program's hook
  // wrapped it stays with its tensor, which may have no name any more, or another one.
  void operator()(const at::Tensor& parameter) override {
    if (gradient_->hook_ == this) gradient_->OnAccumulated(parameter);
    if (next_ != nullptr) (*next_)(parameter);
  }

  std::unique_ptr<PostAccumulateGradHook> TakeNext() { return std::move(next_); }

 private:
  const std::shared_ptr<UnreducedGradient> gradient_;
  std::unique_ptr<PostAccumulateGradHook> next_;
};

void UnreducedGradient::Hang(const at::Tensor& parameter) {
  if (hook_ != nullptr || !parameter.is_leaf()) return;
  std::unique_ptr<ag::PostAccumulateGradHook> next;
  if (ag::impl::get_autograd_meta(parameter) != nullptr) next = std::move(ag::impl::post_acc_grad_hooks(parameter));
  auto hook = std::make_unique<Hook>(shared_from_this(), std::move(next));
  Hook* const hung = hook.get();
  ag::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
  hook_ = hung;
}

// A hook that another program has wrapped stays, and does nothing.
void UnreducedGradient::TakeOff(const at::Tensor& parameter) noexcept {
  rows.Discard(context_->recorder.load(std::memory_order_acquire));
  if (hook_ == nullptr || !parameter.defined()) return;
  std::unique_ptr<ag::PostAccumulateGradHook>& place = ag::impl::post_acc_grad_hooks(parameter);
  if (place.get() == hook_) place = hook_->TakeNext();
  hook_ = nullptr;
}

void UnreducedGradient::OnAccumulated(const at::Tensor& parameter) noexcept {
  Guarded(*context_, "the hook of an un-reduced gradient", [&] {
    if (!rows.wanted()) return;
    const uint32_t pass = rows.CountPass(context_->step.load(std::memory_order_relaxed));
    // Backward passes within an update are those of a closure that the optimizer runs again: the gradient of its first
    // run is ready when the update begins, and the others have no rows.
    if (rows.is_updating()) return;
    context_->NotePasses(pass);
    Recorder* const recorder = context_->Collecting();
    if (recorder != nullptr && parameter.grad().defined()) (void)rows.See(*context_, *recorder, parameter.grad(), pass);
  });
}

}  // namespace stepwatch::torch_front
