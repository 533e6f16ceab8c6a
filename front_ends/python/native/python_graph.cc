#include "front_ends/python/native/python_graph.h"

#include <limits>
#include <string_view>

#include "front_ends/python/native/returned_leaf.h"

namespace stepwatch::python {

PythonGraph::EdgeView PythonGraph::EdgeIn(PyObject* pair) {
  if (!PyTuple_Check(pair) || NB_TUPLE_GET_SIZE(pair) != 2 || NB_TUPLE_GET_ITEM(pair, 0) == Py_None) return {};
  return {NB_TUPLE_GET_ITEM(pair, 0), NB_TUPLE_GET_ITEM(pair, 1)};
}

bool PythonGraph::AreSame(EdgeView a, EdgeView b) {
  if (a.node != b.node) return false;
  const int same = PyObject_RichCompareBool(a.output, b.output, Py_EQ);
  if (same < 0) ClearError();
  return same > 0;
}

PythonGraph::Edge PythonGraph::EdgeToNode(PyObject* tensor) const {
  Ref node = Attribute(tensor, names_->grad_fn);
  if (!node || node.ptr() == Py_None) return {};
  Ref output = Attribute(tensor, names_->output_nr);
  return output ? Edge{std::move(node), std::move(output)} : Edge{};
}

PythonGraph::Edge PythonGraph::EdgeOf(PyObject* tensor) const {
  if (!NeedsGradient(tensor)) return {};
  Edge edge = EdgeToNode(tensor);
  if (edge.node) return edge;
  // A leaf has no node: uses the next function of any node that uses it.
  const Ref user = CallMethod(tensor, names_->view_as, tensor);
  const Ref node = user ? Attribute(user.ptr(), names_->grad_fn) : Ref();
  const Ref next = node ? Attribute(node.ptr(), names_->next_functions) : Ref();
  if (!next || !PyTuple_Check(next.ptr()) || NB_TUPLE_GET_SIZE(next.ptr()) == 0) return {};
  const EdgeView first = EdgeIn(NB_TUPLE_GET_ITEM(next.ptr(), 0));
  return {Ref::Borrow(first.node), Ref::Borrow(first.output)};
}

PythonGraph::Edge PythonGraph::EdgeToBase(PyObject* tensor) const {
  const Ref base = Attribute(tensor, names_->base);
  if (!base || base.ptr() == Py_None) return {};
  const TensorView whole = context_->reader.Read(base.ptr()).view;
  const TensorView view = context_->reader.Read(tensor).view;
  return whole.numel == view.numel && whole.data == view.data ? EdgeToNode(base.ptr()) : Edge{};
}

// That of a base is in the layout of the base, as the node in front of it writes it.
Ref PythonGraph::InLayout(PyObject* gradient, const Layout& layout) {
  const Ref plain = CallMethod(gradient, "detach");
  if (!plain || !layout.sizes || !layout.strides) return {};
  return Ref(PyObject_CallMethod(plain.ptr(), "as_strided", "OO", layout.sizes.ptr(), layout.strides.ptr()));
}

uint64_t PythonGraph::NumberOf(const Ref& node) const {
  const Ref number = CallMethod(node.ptr(), names_->sequence_nr);
  const uint64_t value = number ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (number && PyErr_Occurred() == nullptr) return value;
  ClearError();
  return std::numeric_limits<uint64_t>::max();
}

bool PythonGraph::WritesIntoView(const Ref& node) {
  const Ref name = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(node.ptr())), "__name__");
  const char* const text = name ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (text != nullptr) return std::string_view(text) == "CopySlices";
  ClearError();
  return false;
}

void PythonGraph::Hang(PyObject* tensor, GradientPlace place) const {
  const Ref callable = MakeCallable(std::move(place));
  if (callable) context_->tensor_hooks.Hang(*names_, tensor, callable.ptr());
}

void PythonGraph::HangOnLeaf(PyObject* leaf, GradientPlace place) const {
  returned_->Watch(leaf, context_->tensor_hooks.IsParameter(leaf), std::move(place));
}

void PythonGraph::HangOnNode(const Ref& node, ConsumerHook hook) const {
  const Ref callable = MakeCallable(std::move(hook));
  if (callable) (void)CallMethod(node.ptr(), names_->register_hook, callable.ptr());
}

}  // namespace stepwatch::python
