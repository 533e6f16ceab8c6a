#include "front_ends/torch/input_gradient.h"

#include <ATen/ops/view_as_ops.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// Hands gradients through unchanged and shows them. Its apply is called as well when the node lies inside the
// CopySlices node that autograd makes for a write into a view.
class ShowGradient : public ag::Node {
 public:
  ShowGradient(std::vector<int64_t> shape, GradientFunction on_gradient)
      : shape_(std::move(shape)), on_gradient_(std::move(on_gradient)) {}

  std::string name() const override { return "stepwatch::ShowGradient"; }

 private:
  ag::variable_list apply(ag::variable_list&& gradients) override {
    if (!gradients.empty()) Show(gradients[0]);
    return std::move(gradients);
  }
  void Show(const at::Tensor& gradient) {
    if (!gradient.defined() || gradient.sizes() == shape_) {
      on_gradient_(gradient);
    } else {
      const at::NoGradGuard no_grad;
      on_gradient_(gradient.reshape(shape_));
    }
  }

  const std::vector<int64_t> shape_;  // of the input, which may be a view of another shape
  const GradientFunction on_gradient_;
};

bool CanIntercept(const at::Tensor& input, const at::Tensor& target) {
  if (!target.requires_grad() || target.is_leaf() || target.retains_grad() || input.retains_grad()) return false;
  if (input.is_same(target)) return true;
  return input.is_contiguous() && target.is_contiguous() && input.numel() == target.numel();
}

}  // namespace

at::Tensor AliasWithHook(const at::Tensor& input, GradientFunction on_gradient) {
  at::Tensor alias = input.view_as(input);
  alias.register_hook([on_gradient = std::move(on_gradient)](const at::Tensor& gradient) { on_gradient(gradient); });
  return alias;
}

Interception::Interception(const at::Tensor& input, GradientFunction on_gradient)
    : target_(input.is_view() ? input._base() : input) {
  if (!CanIntercept(input, target_)) return;
  history_ = ag::impl::gradient_edge(target_);
  auto node = c10::make_intrusive<ShowGradient>(input.sizes().vec(), std::move(on_gradient));
  node->set_next_edges({history_});
  node->add_input_metadata(target_);
  ag::impl::set_gradient_edge(target_, ag::Edge(node, 0));
  node_ = std::move(node);
}

Interception::Interception(Interception&& other) noexcept
    : target_(std::move(other.target_)), history_(std::move(other.history_)), node_(std::move(other.node_)) {}

bool Interception::Restore() noexcept {
  if (!node_) return false;
  const c10::intrusive_ptr<ag::Node> node = std::move(node_);
  node_ = {};
  try {
    if (target_.grad_fn() != node) return true;
    ag::impl::set_gradient_edge(target_, history_);
  } catch (...) {  // the graph is left as it is: right, with one node more
  }
  return false;
}

}  // namespace stepwatch::torch_front
