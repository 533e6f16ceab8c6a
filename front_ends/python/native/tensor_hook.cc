#include "front_ends/python/native/tensor_hook.h"

namespace stepwatch::python {

TensorHooks::TensorHooks(PyObject* torch) : tensor_type_(Attribute(torch, "Tensor")) {
  const Ref collections(PyImport_ImportModule("collections"));
  if (collections) ordered_dict_ = Attribute(collections.ptr(), "OrderedDict");
  const Ref nn = Attribute(torch, "nn");
  if (nn) parameter_type_ = Attribute(nn.ptr(), "Parameter");
  ClearError();
}

bool TensorHooks::IsParameter(PyObject* tensor) const {
  const int is = parameter_type_ ? PyObject_IsInstance(tensor, parameter_type_.ptr()) : 0;
  if (is < 0) ClearError();
  return is > 0;
}

void TensorHooks::Hang(const Names& names, PyObject* tensor, PyObject* hook) const {
  if (!HangDirectly(names, tensor, hook)) (void)CallMethod(tensor, names.register_hook, hook);
}

// A tensor without hooks gets a new dict, which its graph node must get too; others have registered theirs already.
bool TensorHooks::HangDirectly(const Names& names, PyObject* tensor, PyObject* hook) const {
  if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != tensor_type_.ptr() || !ordered_dict_) return false;
  Ref hooks = Attribute(tensor, names.backward_hooks);
  if (!hooks) return false;
  if (hooks.ptr() == Py_None) {
    const Ref node = Attribute(tensor, names.grad_fn);
    if (!node || node.ptr() == Py_None) return false;
    const Ref register_dict = Attribute(node.ptr(), names.register_hook_dict);
    hooks = Ref(register_dict ? PyObject_CallNoArgs(ordered_dict_.ptr()) : nullptr);
    if (!hooks || PyObject_SetAttr(tensor, names.backward_hooks.ptr(), hooks.ptr()) != 0) {
      ClearError();
      return false;
    }
    if (!Ref(PyObject_CallFunctionObjArgs(register_dict.ptr(), tensor, nullptr))) {
      ClearError();
      (void)PyObject_SetAttr(tensor, names.backward_hooks.ptr(), Py_None);
      ClearError();
      return false;
    }
  }
  // Keys need only differ for each hook; torch's are numbers.
  const bool hangs = PyObject_SetItem(hooks.ptr(), hook, hook) == 0;
  ClearError();
  return hangs;
}

}  // namespace stepwatch::python
