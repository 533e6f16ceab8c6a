// Autograd's graph in LibTorch, as the calls of modules use it, and the hooks in it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "front_ends/shared/call_graph.h"
#include "front_ends/torch/context.h"

namespace stepwatch::torch_front {

struct TorchGraph {
  using Tensors = TorchTensors;
  using Edge = torch::autograd::Edge;
  using EdgeView = const Edge&;
  using Node = decltype(Edge::function);
  struct Layout {
    std::vector<int64_t> sizes, strides;
  };

  // LibTorch's list of the hooks of a leaf never gets shorter, and the leaf is mostly a parameter of some module: a
  // hook for each call would make it grow with every step. A leaf that a module returns has no gradient here.
  static constexpr bool kHangsOnLeaves = false;

  static Edge EdgeOf(const at::Tensor& tensor);
  static Edge EdgeToNode(const at::Tensor& tensor) { return tensor.is_leaf() ? Edge() : EdgeOf(tensor); }
  static Edge EdgeToBase(const at::Tensor& tensor);
  static Layout LayoutOf(const at::Tensor& tensor) { return {tensor.sizes().vec(), tensor.strides().vec()}; }
  static at::Tensor InLayout(const at::Tensor& gradient, const Layout& layout) {
    return gradient.detach().as_strided(layout.sizes, layout.strides);
  }

  static bool IsEmpty(const Edge& edge) { return !edge.is_valid(); }
  static bool AreSame(const Edge& a, const Edge& b) { return a == b; }
  static Node NodeOf(const Edge& edge) { return edge.function; }
  static const void* KeyOf(const Edge& edge) { return edge.function.get(); }
  static uint64_t NumberOf(const Node& node) { return node->sequence_nr(); }
  static uint64_t NextNumber();
  static bool WritesIntoView(const Node& node);
  template <class F>
  static void ForEachNext(const Node& node, const F& f) {
    const torch::autograd::edge_list& next = node->next_edges();
    for (size_t position = 0; position < next.size(); ++position)
      if (next[position].is_valid()) f(position, next[position]);
  }

  static void Hang(const at::Tensor& tensor, front_end::GradientPlace<TorchTensors> place);
  static void HangOnNode(const Node& node, front_end::ConsumerHook<TorchGraph> hook);
};

}  // namespace stepwatch::torch_front
