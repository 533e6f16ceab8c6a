// Finds the nodes of autograd's graph that compute the gradients of a call's inputs: those that the call has made and
// that use its inputs.
//
// The module gets the original tensors, and the graph is not changed. Autograd adds up the gradients of a tensor in the
// order in which they arrive; an extra node between a tensor and a module would add up those of the module first, and
// training would no longer be bit-identical.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <vector>

namespace stepwatch::torch_front {

using NodePtr = decltype(torch::autograd::Edge::function);

// The edge that an input's gradient flows along.
struct InputEdge {
  torch::autograd::Edge edge;
  uint16_t element = 0;
  // `edge` belongs to the base of which the input is a view. A module that writes into such an input puts a CopySlices
  // node between the base and its history, and that node has the gradient in the base's shape.
  bool of_base = false;
  std::vector<int64_t> shape{};  // of the input, beside `of_base`
};

// Appends the edge of one input, which requires a gradient. Returns false for an edge that is already in the list, and
// leaves it out: autograd cannot distinguish two uses of one tensor, and the gradient of both is recorded at the first.
bool AppendEdges(const at::Tensor& input, uint16_t element, std::vector<InputEdge>* edges);

// A node of the call that uses some of its inputs.
struct Consumer {
  struct Taken {
    size_t position = 0;  // among the gradients that the node computes
    uint16_t element = 0;
    bool of_base = false;
    std::vector<int64_t> shape{};
  };
  NodePtr node;
  std::vector<Taken> taken;
};

// Walks the graph from `roots`, the nodes of the call's outputs, to the nodes of `edges`. Nodes whose sequence number
// is below `first_sequence` existed before the call and are not walked.
std::vector<Consumer> FindConsumers(std::vector<NodePtr> roots, const std::vector<InputEdge>& edges,
                                    uint64_t first_sequence);

}  // namespace stepwatch::torch_front
