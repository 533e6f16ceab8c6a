// The modules and parameters of the attached models, in the order and with the names in which the core knows them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/torch/tap_point.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stepwatch::torch_front {

// For each parameter the positions of the optimizers that update it, in order: several where they take turns.
using Shares = std::vector<std::vector<size_t>>;

struct ModelIndex {
  SiteIndex sites;
  std::vector<TapPoint*> points;       // as sites.modules; null: not Watched
  std::vector<at::Tensor> parameters;  // as sites.parameters
};

// Appends one model. A parameter that is frozen, and could be trained, is listed like one that is. What is registered
// under several names is listed under the first.
void AppendModel(torch::nn::Module& root, int chunk, ModelIndex* index);

// Expired if no shared_ptr holds the module.
std::weak_ptr<torch::nn::Module> OwnerOf(torch::nn::Module& module);

// Null if the optimizer is not Watched.
OptimizerPoint* PointOf(torch::optim::Optimizer& optimizer);
torch::optim::Optimizer& OptimizerOf(OptimizerPoint& point);

// "torch::nn::LinearImpl" -> "Linear"
std::string DisplayType(const std::string& demangled);

}  // namespace stepwatch::torch_front
