// Hooks on the gradients of tensors that live as long as one graph.
#pragma once

#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// Hangs hooks on tensors of a graph, never to take them off. With the GIL held.
class TensorHooks {
 public:
  explicit TensorHooks(PyObject* torch);

  bool IsParameter(PyObject* tensor) const;
  // `tensor` needs a gradient; `hook` is called with it. Does what `Tensor.register_hook` does, which is written in
  // Python and makes a handle beside it; where a tensor is of another kind, or torch's insides are, that one is called.
  void Hang(const Names& names, PyObject* tensor, PyObject* hook) const;

 private:
  bool HangDirectly(const Names& names, PyObject* tensor, PyObject* hook) const;

  Ref tensor_type_;
  Ref parameter_type_;
  Ref ordered_dict_;  // torch's handles need what a plain dict has not: weak references
};

}  // namespace stepwatch::python
