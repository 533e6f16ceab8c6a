#include "front_ends/torch/call_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// Calls of one step that Finish looks at again. A program that never ends a step must not fill the memory.
constexpr size_t kUnfinishedMax = size_t{1} << 18;

size_t IndexOf(uint16_t element) {
  return element == kNoElement ? 0 : element;
}

}  // namespace

// Sees the gradients that a node has computed and hands them on as they are.
class CallGradients::NodeHook final : public ag::FunctionPostHook {
 public:
  NodeHook(std::shared_ptr<CallGradients> gradients, std::vector<Consumer::Taken> taken)
      : gradients_(std::move(gradients)), taken_(std::move(taken)) {}

  ag::variable_list operator()(const ag::variable_list& computed, const ag::variable_list&) override {
    for (const Consumer::Taken& each : taken_)
      if (each.position < computed.size()) gradients_->OnPart(each, computed[each.position]);
    return computed;
  }

 private:
  const std::shared_ptr<CallGradients> gradients_;
  const std::vector<Consumer::Taken> taken_;
};

CallGradients::CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, CallPosition at)
    : context_(std::move(context)),
      generation_(context_->generation.load(std::memory_order_relaxed)),
      step_(context_->step.load(std::memory_order_relaxed)),
      sites_(sites),
      at_(at) {}

void CallGradients::ExpectInput(uint16_t element, const at::Tensor& input) {
  inputs_.push_back({element, input.sizes().vec()});
}

void CallGradients::HangOn(const Consumer& consumer) {
  for (const Consumer::Taken& taken : consumer.taken)
    if (Input* const input = Find(taken.element)) ++input->parts;
  consumer.node->add_post_hook(std::make_unique<NodeHook>(shared_from_this(), consumer.taken));
}

// A module that returns an input as it is takes no part in what flows back: the gradient is that of the tensor.
void CallGradients::HangOnReturnedInput(const at::Tensor& output, uint16_t element) {
  if (Input* const input = Find(element)) input->parts = 1;
  output.register_hook([shared = shared_from_this(), element](const at::Tensor& gradient) {
    shared->OnPart({0, element, false}, gradient);
  });
}

void CallGradients::HangOnOutput(const at::Tensor& output, uint16_t element) {
  output.register_hook(
      [shared = shared_from_this(), element](const at::Tensor& gradient) { shared->OnOutput(element, gradient); });
}

void CallGradients::Describe(std::shared_ptr<StructureRecorder> structure, int entry) {
  structure_ = std::move(structure);
  structure_entry_ = entry;
}

CallGradients::Input* CallGradients::Find(uint16_t element) {
  const auto found =
      std::find_if(inputs_.begin(), inputs_.end(), [element](const Input& input) { return input.element == element; });
  return found == inputs_.end() ? nullptr : &*found;
}

// A graph may be walked in a later step, or after a change of plan; its gradients are then nobody's.
Recorder* CallGradients::Collecting() const noexcept {
  return context_->step.load(std::memory_order_relaxed) == step_ ? context_->CollectingSince(generation_) : nullptr;
}

// In the order in which they arrive, which is that of autograd's own sum.
void CallGradients::OnPart(const Consumer::Taken& taken, const at::Tensor& gradient) noexcept {
  Guarded(*context_, "the hook of an input's gradient", [&] {
    Input* const input = Find(taken.element);
    if (input == nullptr || Collecting() == nullptr) return;
    Answer();
    at::Tensor whole;
    {
      const at::NoGradGuard no_grad;
      const std::lock_guard<std::mutex> lock(mutex_);
      // A second walk of the graph that asks for other gradients of the node: autograd::grad for the weights alone.
      if (!gradient.defined() && input->seen) return;
      at::Tensor part = gradient.defined() ? gradient.detach() : gradient;
      if (taken.of_base && part.defined()) part = part.reshape(input->shape);
      if (part.defined()) input->sum = input->sum.defined() ? at::add(input->sum, part) : std::move(part);
      if (++input->arrived < input->parts) return;
      input->arrived = 0;
      input->seen = true;
      whole = std::exchange(input->sum, at::Tensor());
    }
    OnInput(taken.element, whole);
  });
}

void CallGradients::OnInput(uint16_t element, const at::Tensor& gradient) noexcept {
  Guarded(*context_, "the hook of an input's gradient", [&] {
    if (Recorder* const recorder = Collecting()) ShowInput(*recorder, element, gradient);
  });
}

void CallGradients::OnOutput(uint16_t element, const at::Tensor& gradient) noexcept {
  Guarded(*context_, "the hook of an output's gradient", [&] {
    Recorder* const recorder = Collecting();
    if (recorder == nullptr) return;
    Show(*recorder, sites_.output_grad, element, gradient);
    if (structure_entry_ >= 0)
      structure_->AddOutputGradient(structure_entry_, IndexOf(element), DescribeTensor(gradient));
    Answer();
  });
}

void CallGradients::ShowInput(Recorder& recorder, uint16_t element, const at::Tensor& gradient) {
  Show(recorder, sites_.input_grad, element, gradient);
  if (structure_entry_ < 0) return;
  structure_->AddInputGradient(structure_entry_, IndexOf(element),
                               gradient.defined() ? DescribeTensor(gradient) : kNoTensor);
}

void CallGradients::Show(Recorder& recorder, SiteId site, uint16_t element, const at::Tensor& gradient) {
  if (site == kNoSite) return;
  const Observation observation{site, at_.micro_step, element, at_.call};
  if (gradient.defined()) {
    context_->Observe(recorder, SiteKind::kActvGrad, observation, gradient);
  } else {
    recorder.ObserveMissing(observation);
  }
}

// The first gradient of the call: no later one can come for inputs that no node takes.
void CallGradients::Answer() {
  if (answered_.exchange(true)) return;
  if (Recorder* const recorder = Collecting()) ShowUnreachable(*recorder);
  context_->AddUnfinished(shared_from_this(), kUnfinishedMax);
}

void CallGradients::ShowUnreachable(Recorder& recorder) {
  for (const Input& input : inputs_)
    if (input.parts == 0) ShowInput(recorder, input.element, at::Tensor());
}

void CallGradients::Finish() noexcept {
  Guarded(*context_, "closing the gradients of a call", [&] {
    Recorder* const recorder = Collecting();
    for (Input& input : inputs_) {
      at::Tensor sum;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        sum = std::exchange(input.sum, at::Tensor());
        const bool partial = std::exchange(input.arrived, 0) > 0;
        if (input.parts == 0 || (!partial && std::exchange(input.seen, true))) continue;
        input.seen = true;
      }
      if (recorder != nullptr) ShowInput(*recorder, input.element, sum);
    }
  });
}

}  // namespace stepwatch::torch_front
