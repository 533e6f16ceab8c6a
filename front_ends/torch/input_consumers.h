// Finds where the gradients of a call's inputs come from: the nodes of autograd's graph that the call has made and that
// take its inputs.
//
// The module gets the very tensors that it was called with, and nothing is put into the graph. Autograd adds up the
// gradients of a tensor in the order in which they arrive; a node of ours between a tensor and a module would add those
// of the module up first, and the training run would lose its bits.
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
  // `edge` belongs to the base that the input is a view of, whole. A module that writes into such an input puts a
  // CopySlices node between the base and its history, and that node takes the gradient in the base's shape.
  bool of_base = false;
  std::vector<int64_t> shape{};  // of the input, beside `of_base`
};

// Appends the edges of one input, which requires a gradient. An edge that is in the list already is left out: autograd
// cannot tell two uses of one tensor apart, and the gradient of both stands at the first. False: it was left out.
bool AppendEdges(const at::Tensor& input, uint16_t element, std::vector<InputEdge>* edges);

// A node of the call that takes some of its inputs.
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

// Walks the graph from the `roots`, the nodes of the call's outputs, as far as the nodes of the `edges`. Nodes whose
// sequence number is below `first_sequence` were there before the call and are not walked.
std::vector<Consumer> FindConsumers(std::vector<NodePtr> roots, const std::vector<InputEdge>& edges,
                                    uint64_t first_sequence);

}  // namespace stepwatch::torch_front
