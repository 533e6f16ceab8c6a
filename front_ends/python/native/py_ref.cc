#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {
namespace {

int RaisePending(void* exception) {
  const Ref owned(static_cast<PyObject*>(exception));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(owned.ptr())), owned.ptr());
  return -1;
}

}  // namespace

void ClearError() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception) != 0) return PyErr_Clear();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (value != nullptr && Py_AddPendingCall(&RaisePending, value) != 0) Py_DECREF(value);
}

}  // namespace stepwatch::python
