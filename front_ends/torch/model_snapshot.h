// The parts of a model, or of the groups of an optimizer, as last read. Comparing pointers at each step is enough to
// detect a change.
//
// Keeps only empty tensors and control blocks alive, so that a new object at an old address is never mistaken for the
// old one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stepwatch::torch_front {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

class ModelSnapshot {
 public:
  void Take(const torch::nn::Module& root);
  // The same modules and parameters in the same places, under the same names.
  bool Describes(const torch::nn::Module& root) const;

 private:
  struct Entry {
    std::string name;  // in its parent; empty: the root
    const torch::nn::Module* module;
    std::weak_ptr<const torch::nn::Module> owner;  // empty: the root may not be in a shared_ptr
    size_t parameters;
    size_t children;
  };
  struct Parameter {
    std::string name;  // in its module
    WeakTensor tensor;
  };
  struct Position {
    size_t module = 0;
    size_t parameter = 0;
  };
  void Append(const std::string& name, const torch::nn::Module& module);
  bool Follows(const std::string& name, const torch::nn::Module& module, Position* at) const;

  std::vector<Entry> modules_;  // depth first, under every name
  std::vector<Parameter> parameters_;
};

class GroupSnapshot {
 public:
  void Take(const torch::optim::Optimizer& optimizer);
  // The same tensors in the same order.
  bool Describes(const torch::optim::Optimizer& optimizer) const;

 private:
  std::vector<WeakTensor> parameters_;
};

}  // namespace stepwatch::torch_front
