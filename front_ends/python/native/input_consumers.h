// Finds the nodes that compute the gradients of a call's tensors: nodes of autograd's graph that the call has made and
// that use its inputs, or outputs that it uses itself.
//
// The module gets its own arguments, and the graph is not changed. Autograd adds up the gradients of a tensor in the
// order in which they arrive: an extra node between a tensor and a module would add up those of the module first, and
// training would no longer be bit-identical.
#pragma once

#include <cstdint>
#include <vector>

#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// The edge along which the gradient of a tensor flows, as torch.autograd.graph.GradientEdge.
struct GradientEdge {
  Ref node;
  Ref output;  // its number among the outputs of the node
  uint16_t element = 0;
  bool of_base = false;  // of the base of a view: used only by the node of an in-place change

  bool Is(PyObject* other_node, PyObject* other_output) const;
};

// `node` is empty if the tensor is a leaf or needs no gradient.
GradientEdge EdgeOfNode(const Names& names, PyObject* tensor, uint16_t element);
// The same, for leaves as well; `tensor` needs a gradient. `node` is empty if torch does not provide it.
GradientEdge EdgeOf(const Names& names, PyObject* tensor, uint16_t element);

// A node that uses some of the tensors.
struct Consumer {
  struct Taken {
    Py_ssize_t position;  // among the gradients that the node computes
    uint16_t element;
    bool of_base = false;  // the gradient has the shape of the view's base
  };
  Ref node;
  std::vector<Taken> taken;
};

// The sequence number of a node, in the order in which its thread made nodes; -1 if torch does not provide it.
long SequenceOf(const Names& names, PyObject* node);

// `roots`: the nodes of the call's outputs. Nodes older than `first_sequence` do not belong to the call; -1: unknown.
// `edges` are those of inputs: the graph is walked as far as their nodes.
std::vector<Consumer> FindConsumers(const Names& names, std::vector<Ref> roots, const std::vector<GradientEdge>& edges,
                                    long first_sequence);
// Among the nodes of several outputs, those that use other outputs in the list.
std::vector<Consumer> FindConsumersAmong(const Names& names, const std::vector<GradientEdge>& outputs);

// Leaves out parts of the gradients of bases if a tensor has other parts, to which they could not be added.
void KeepPartsOfOne(std::vector<Consumer>* consumers);

}  // namespace stepwatch::python
