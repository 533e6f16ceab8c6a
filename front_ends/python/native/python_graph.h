// Autograd's graph as Python shows it, as the calls of modules use it, and the hooks in it.
#pragma once

#include <cstdint>
#include <utility>

#include "front_ends/python/native/context.h"
#include "front_ends/python/native/py_ref.h"
#include "front_ends/shared/call_graph.h"

namespace stepwatch::python {

class ReturnedLeaves;

using GradientPlace = front_end::GradientPlace<PythonTensors>;

class PythonGraph {
 public:
  using Tensors = PythonTensors;
  using Node = Ref;
  struct EdgeView {
    PyObject* node;
    PyObject* output;  // its number among the outputs of the node
  };
  // As torch.autograd.graph.GradientEdge.
  struct Edge {
    Ref node;
    Ref output;

    operator EdgeView() const {
      return {node.ptr(), output.ptr()};
    }  // NOLINT(google-explicit-constructor): a view of it
  };
  struct Layout {
    Ref sizes, strides;
  };
  static constexpr bool kHangsOnLeaves = true;

  PythonGraph(Context* context, ReturnedLeaves* returned)
      : context_(context), names_(&context->names), returned_(returned) {}

  Edge EdgeOf(PyObject* tensor) const;
  Edge EdgeToNode(PyObject* tensor) const;
  Edge EdgeToBase(PyObject* tensor) const;
  static Layout LayoutOf(PyObject* tensor) { return {Attribute(tensor, "shape"), CallMethod(tensor, "stride")}; }
  static Ref InLayout(PyObject* gradient, const Layout& layout);
  bool NeedsGradient(PyObject* tensor) const { return IsTrue(Attribute(tensor, names_->requires_grad)); }

  static bool IsEmpty(EdgeView edge) { return edge.node == nullptr; }
  static bool AreSame(EdgeView a, EdgeView b);
  static Ref NodeOf(EdgeView edge) { return Ref::Borrow(edge.node); }
  static const void* KeyOf(EdgeView edge) { return edge.node; }
  uint64_t NumberOf(const Ref& node) const;
  uint64_t NextNumber() const { return context_->NextSequence(); }
  static bool WritesIntoView(const Ref& node);
  template <class F>
  void ForEachNext(const Ref& node, const F& f) const {
    const Ref next = Attribute(node.ptr(), names_->next_functions);
    if (!next || !PyTuple_Check(next.ptr())) return;
    for (Py_ssize_t i = 0; i < NB_TUPLE_GET_SIZE(next.ptr()); ++i) {
      const EdgeView edge = EdgeIn(NB_TUPLE_GET_ITEM(next.ptr(), i));
      if (!IsEmpty(edge)) f(static_cast<size_t>(i), edge);
    }
  }

  void Hang(PyObject* tensor, GradientPlace place) const;
  void HangOnLeaf(PyObject* leaf, GradientPlace place) const;
  void HangOnNode(const Ref& node, front_end::ConsumerHook<PythonGraph> hook) const;

 private:
  // The edge of a pair (node, output), or empty.
  static EdgeView EdgeIn(PyObject* pair);

  Context* context_;
  const Names* names_;
  ReturnedLeaves* returned_;
};

using ConsumerHook = front_end::ConsumerHook<PythonGraph>;

// Defined with the bindings: the Python callable of a hook.
Ref MakeCallable(GradientPlace place);
Ref MakeCallable(ConsumerHook hook);

}  // namespace stepwatch::python
