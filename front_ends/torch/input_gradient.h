// The gradient of a module's input through this module alone.
//
// Normally the module is handed an alias of the input, `input.view_as(input)`, and a hook sits on the alias: other
// users of the input hold the input itself, so only what flows back through the module arrives there. The bits of all
// gradients stay the same, except that three or more contributions to one tensor may be summed in another order when
// the module uses its input more than once.
//
// A module that writes into its input defeats the alias: autograd then rebases the history of the input itself and the
// alias's node is bypassed. For such modules (an `inplace` option, or seen to do it once) a node is put between the
// input and its history for the time of the call. If the module wrote, all that follows flows through that node and
// nothing else does; if it did not, the input gets its history back as it was. Neither way bumps a version or makes a
// view.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <functional>

namespace stepwatch::torch_front {

using GradientFunction = std::function<void(const at::Tensor&)>;  // must not throw; an undefined tensor is possible

// The alias to hand to the module. `input` requires grad and is strided.
at::Tensor AliasWithHook(const at::Tensor& input, GradientFunction on_gradient);

// The node between an input and its history, while a module runs that may write into the input.
class Interception {
 public:
  // Not armed if the input cannot be intercepted: a leaf, a view of part of its base, or one that retains its gradient.
  Interception(const at::Tensor& input, GradientFunction on_gradient);
  ~Interception() { Restore(); }
  Interception(Interception&& other) noexcept;
  Interception& operator=(Interception&&) = delete;

  bool armed() const { return node_.defined(); }
  // After the call: gives the input its history back unless the module has written into it. True if it has.
  bool Restore() noexcept;

 private:
  at::Tensor target_;  // the input, or the base that it is a view of
  torch::autograd::Edge history_;
  c10::intrusive_ptr<torch::autograd::Node> node_;
};

}  // namespace stepwatch::torch_front
