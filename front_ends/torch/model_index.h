// The modules and parameters of the attached models, in the order and with the names of the SiteIndex.
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

// For each parameter the positions of its optimizers, in order: several if they take turns.
using Shares = std::vector<std::vector<size_t>>;

struct ModelIndex {
  SiteIndex sites;
  std::vector<TapPoint*> points;       // as sites.modules; null: not Watched
  std::vector<at::Tensor> parameters;  // as sites.parameters
};

// Appends one model. Frozen parameters that could be trained are listed too. A module or parameter with several names
// is listed under the first.
void AppendModel(torch::nn::Module& root, int chunk, ModelIndex* index);

// Expired if no shared_ptr holds the module.
std::weak_ptr<torch::nn::Module> OwnerOf(torch::nn::Module& module);

// Null if the optimizer is not Watched.
OptimizerPoint* PointOf(torch::optim::Optimizer& optimizer);
torch::optim::Optimizer& OptimizerOf(OptimizerPoint& point);

// "torch::nn::LinearImpl" -> "Linear"
std::string DisplayType(const std::string& demangled);

}  // namespace stepwatch::torch_front
