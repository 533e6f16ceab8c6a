#include "front_ends/torch/model_index.h"

#include <c10/util/Type.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string_view>
#include <typeinfo>
#include <unordered_set>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {

std::string DisplayType(const std::string& demangled) {
  const size_t arguments = demangled.find('<');
  const size_t colons = demangled.rfind("::", arguments);
  std::string name = colons == std::string::npos ? demangled : demangled.substr(colons + 2);
  constexpr std::string_view kSuffix = "Impl";
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

namespace {

void AppendModule(torch::nn::Module& module, const std::string& name, int chunk, ModelIndex* index) {
  auto* point = dynamic_cast<TapPoint*>(&module);
  const std::type_info& type = point != nullptr ? point->watched_type() : typeid(module);
  index->sites.modules.push_back({chunk, name, DisplayType(c10::demangle(type.name())), point != nullptr});
  index->points.push_back(point);
}

bool CanBeTrained(const at::Tensor& parameter) {
  return parameter.requires_grad() || (parameter.is_leaf() && parameter.is_floating_point());
}

}  // namespace

void AppendModel(torch::nn::Module& root, int chunk, ModelIndex* index) {
  std::unordered_set<const void*> seen{&root};
  AppendModule(root, "", chunk, index);
  // Without the root itself, which may not be held by a shared_ptr.
  for (const auto& item : root.named_modules(std::string(), /*include_self=*/false))
    if (seen.insert(item.value().get()).second) AppendModule(*item.value(), item.key(), chunk, index);
  for (const auto& item : root.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    index->sites.parameters.push_back(
        {chunk, item.key(), DTypeOf(parameter), parameter.sizes().vec(), CanBeTrained(parameter)});
    index->parameters.push_back(parameter);
  }
}

std::weak_ptr<torch::nn::Module> OwnerOf(torch::nn::Module& module) {
  return module.weak_from_this();
}

OptimizerPoint* PointOf(torch::optim::Optimizer& optimizer) {
  return dynamic_cast<OptimizerPoint*>(&optimizer);
}

torch::optim::Optimizer& OptimizerOf(OptimizerPoint& point) {
  return dynamic_cast<torch::optim::Optimizer&>(point);
}

}  // namespace stepwatch::torch_front
