// An owned reference to a Python object, for code that talks to the C API directly.
#pragma once

#include <Python.h>

#include <utility>

namespace stepwatch::python {

class Ref {
 public:
  Ref() = default;
  // Takes over a new reference; null is allowed and means "nothing".
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref Borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// The attribute, or nothing; no error is left set.
inline Ref Attribute(PyObject* object, const char* name) {
  Ref found(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

// The result of a call without arguments, or nothing; no error is left set.
inline Ref CallMethod(PyObject* object, const char* name) {
  Ref found(PyObject_CallMethod(object, name, nullptr));
  if (!found) PyErr_Clear();
  return found;
}

inline bool IsTrue(const Ref& object) {
  if (!object) return false;
  const int truth = PyObject_IsTrue(object.get());
  if (truth < 0) PyErr_Clear();
  return truth > 0;
}

}  // namespace stepwatch::python
