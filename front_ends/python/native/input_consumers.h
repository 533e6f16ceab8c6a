// Where the gradients of a call's tensors come from: the nodes of autograd's graph that the call has made and that take
// its inputs, or outputs that it uses itself.
//
// The module is given its own arguments, and nothing is put into the graph. Autograd adds the gradients of a tensor up
// in the order in which they come: a node of ours between a tensor and a module would add those of the module up
// first, and training would lose its bits.
#pragma once

#include <cstdint>
#include <vector>

#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// Where the gradient of a tensor flows to, as torch.autograd.graph.GradientEdge.
struct GradientEdge {
  Ref node;
  Ref output;  // its number among the outputs of the node
  uint16_t element = 0;
  bool of_base = false;  // of what the tensor is a view of: taken only by the node of a change in place

  bool Is(PyObject* other_node, PyObject* other_output) const;
};

// Nothing in `node`: the tensor is a leaf or needs no gradient.
GradientEdge EdgeOfNode(const Names& names, PyObject* tensor, uint16_t element);
// The same of a leaf as well; `tensor` needs a gradient. Nothing in `node` if torch does not tell.
GradientEdge EdgeOf(const Names& names, PyObject* tensor, uint16_t element);

// A node that takes some of them.
struct Consumer {
  struct Taken {
    Py_ssize_t position;  // among what the node gives gradients to
    uint16_t element;
    bool of_base = false;  // what comes has the shape of what the tensor is a view of
  };
  Ref node;
  std::vector<Taken> taken;
};

// The number of a node in the order in which its thread has made nodes; -1 if torch does not tell.
long SequenceOf(const Names& names, PyObject* node);

// `roots`: the nodes of the call's outputs. Nodes older than `first_sequence` are none of the call's; -1: nobody knows.
// `edges` are those of inputs: the graph is walked as far as their nodes.
std::vector<Consumer> FindConsumers(const Names& names, std::vector<Ref> roots, const std::vector<GradientEdge>& edges,
                                    long first_sequence);
// Among the nodes of several outputs, those that take other ones of these outputs.
std::vector<Consumer> FindConsumersAmong(const Names& names, const std::vector<GradientEdge>& outputs);

// Leaves out parts of the gradients of bases where a tensor has others, to which they could not be added.
void KeepPartsOfOne(std::vector<Consumer>* consumers);

}  // namespace stepwatch::python
