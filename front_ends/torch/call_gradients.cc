#include "front_ends/torch/call_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/function_hook.h>

#include <utility>
#include <vector>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// Observes the gradients that a node has computed, and returns them unchanged.
class NodeHook final : public ag::FunctionPostHook {
 public:
  NodeHook(std::shared_ptr<CallGradients> gradients, std::vector<Consumer::Taken> taken)
      : gradients_(std::move(gradients)), taken_(std::move(taken)) {}

  ag::variable_list operator()(const ag::variable_list& computed, const ag::variable_list&) override {
    for (const Consumer::Taken& each : taken_)
      if (each.position < computed.size()) Bring(each, computed[each.position]);
    return computed;
  }

 private:
  void Bring(const Consumer::Taken& taken, const at::Tensor& gradient) const {
    if (!taken.of_base || !gradient.defined()) return gradients_->OnPartOfInput(taken.element, gradient);
    Guarded(gradients_->context(), "the hook of a part of a gradient",
            [&] { gradients_->OnPartOfInput(taken.element, gradient.detach().reshape(taken.shape)); });
  }

  const std::shared_ptr<CallGradients> gradients_;
  const std::vector<Consumer::Taken> taken_;
};

}  // namespace

at::Tensor TorchTensors::Add(const at::Tensor& sum, const at::Tensor& part) {
  const at::NoGradGuard no_grad;
  return at::add(sum, part);
}

std::string TorchTensors::Describe(const Context&, const at::Tensor& gradient) {
  return DescribeTensor(gradient);
}

void HangOn(const Consumer& consumer, const std::shared_ptr<CallGradients>& gradients) {
  for (const Consumer::Taken& taken : consumer.taken) gradients->ExpectPartOfInput(taken.element);
  consumer.node->add_post_hook(std::make_unique<NodeHook>(gradients, consumer.taken));
}

void HangOnOutput(const at::Tensor& output, uint16_t element, const std::shared_ptr<CallGradients>& gradients) {
  output.register_hook([gradients, element](const at::Tensor& gradient) { gradients->OnOutput(element, gradient); });
}

// A module that returns an input unchanged adds no node to the graph: the gradient is that of the tensor.
void HangOnReturnedInput(const at::Tensor& output, uint16_t element, const std::shared_ptr<CallGradients>& gradients) {
  gradients->ExpectPartOfInput(element);
  output.register_hook(
      [gradients, element](const at::Tensor& gradient) { gradients->OnPartOfInput(element, gradient); });
}

}  // namespace stepwatch::torch_front
