#include "front_ends/torch/model_snapshot.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace stepwatch::torch_front {
namespace {

// Uses the dictionary itself: named_parameters copies it, names included.
struct RegisteredParameters : torch::nn::Module {
  static const auto& Of(const torch::nn::Module& module) { return module.*(&RegisteredParameters::parameters_); }
};

WeakTensor WeakOf(const at::Tensor& tensor) {
  return WeakTensor(tensor.getIntrusivePtr());
}

bool IsSame(const WeakTensor& known, const at::Tensor& tensor) {
  return known._unsafe_get_target() == tensor.unsafeGetTensorImpl();
}

}  // namespace

void ModelSnapshot::Take(const torch::nn::Module& root) {
  modules_.clear();
  parameters_.clear();
  Append("", root);
}

void ModelSnapshot::Append(const std::string& name, const torch::nn::Module& module) {
  const auto& registered = RegisteredParameters::Of(module);
  const auto children = module.named_children();
  modules_.push_back({name, &module, module.weak_from_this(), registered.size(), children.size()});
  for (const auto& item : registered) parameters_.push_back({item.key(), WeakOf(item.value())});
  for (const auto& child : children)
    if (child.value() != nullptr) Append(child.key(), *child.value());
}

bool ModelSnapshot::Describes(const torch::nn::Module& root) const {
  Position at;
  return Follows("", root, &at) && at.module == modules_.size() && at.parameter == parameters_.size();
}

bool ModelSnapshot::Follows(const std::string& name, const torch::nn::Module& module, Position* at) const {
  if (at->module == modules_.size()) return false;
  const Entry& entry = modules_[at->module];
  const bool is_root = at->module++ == 0;
  const auto& registered = RegisteredParameters::Of(module);
  if (entry.module != &module || entry.name != name || entry.parameters != registered.size()) return false;
  if (!is_root && entry.owner.expired()) return false;  // another one at the same address
  for (const auto& item : registered) {
    if (at->parameter == parameters_.size()) return false;
    const Parameter& known = parameters_[at->parameter++];
    if (!IsSame(known.tensor, item.value()) || known.name != item.key()) return false;
  }
  const auto children = module.named_children();
  if (entry.children != children.size()) return false;
  for (const auto& child : children)
    if (child.value() != nullptr && !Follows(child.key(), *child.value(), at)) return false;
  return true;
}

void GroupSnapshot::Take(const torch::optim::Optimizer& optimizer) {
  parameters_.clear();
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params()) parameters_.push_back(WeakOf(parameter));
}

bool GroupSnapshot::Describes(const torch::optim::Optimizer& optimizer) const {
  size_t at = 0;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params())
      if (at == parameters_.size() || !IsSame(parameters_[at++], parameter)) return false;
  return at == parameters_.size();
}

}  // namespace stepwatch::torch_front
