// Hooks on the gradients of tensors that live as long as one graph.
#pragma once

#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// Adds hooks to tensors of a graph; they are never removed. With the GIL held.
class TensorHooks {
 public:
  explicit TensorHooks(PyObject* torch);

  bool IsParameter(PyObject* tensor) const;
  // `tensor` needs a gradient; `hook` is called with it. Does the work of `Tensor.register_hook`, which is written in
  // Python and makes a handle besides; falls back to it if the tensor is of another kind, or torch's internals differ.
  void Hang(const Names& names, PyObject* tensor, PyObject* hook) const;

 private:
  bool HangDirectly(const Names& names, PyObject* tensor, PyObject* hook) const;

  Ref tensor_type_;
  Ref parameter_type_;
  Ref ordered_dict_;  // torch's handles need weak references, which a plain dict lacks
};

}  // namespace stepwatch::python
