#include "front_ends/torch/torch_graph.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// Returns the gradients of the node unchanged.
class NodeHook final : public ag::FunctionPostHook {
 public:
  explicit NodeHook(front_end::ConsumerHook<TorchGraph> hook) : hook_(std::move(hook)) {}

  ag::variable_list operator()(const ag::variable_list& computed, const ag::variable_list&) override {
    hook_.Deliver(computed.size(), [&](size_t position) -> const at::Tensor& { return computed[position]; });
    return computed;
  }

 private:
  const front_end::ConsumerHook<TorchGraph> hook_;
};

}  // namespace

ag::Edge TorchGraph::EdgeOf(const at::Tensor& tensor) {
  return tensor.requires_grad() ? ag::impl::gradient_edge(tensor) : ag::Edge();
}

ag::Edge TorchGraph::EdgeToBase(const at::Tensor& tensor) {
  if (!tensor.is_view() || tensor.layout() != at::kStrided) return {};
  const at::Tensor base(tensor._base());
  const bool is_whole = base.layout() == at::kStrided && base.numel() == tensor.numel() &&
                        base.storage_offset() == tensor.storage_offset();
  return is_whole ? EdgeOf(base) : ag::Edge();
}

uint64_t TorchGraph::NextNumber() {
  return at::sequence_number::peek();
}

bool TorchGraph::WritesIntoView(const Node& node) {
  return dynamic_cast<const ag::CopySlices*>(node.get()) != nullptr;
}

void TorchGraph::Hang(const at::Tensor& tensor, front_end::GradientPlace<TorchTensors> place) {
  tensor.register_hook([place = std::move(place)](const at::Tensor& gradient) { place.Deliver(gradient); });
}

void TorchGraph::HangOnNode(const Node& node, front_end::ConsumerHook<TorchGraph> hook) {
  node->add_post_hook(std::make_unique<NodeHook>(std::move(hook)));
}

}  // namespace stepwatch::torch_front
