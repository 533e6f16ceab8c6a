// An owned reference to a Python object, or an empty one, and calls that never leave an error set: hooks must not
// raise.
#pragma once

#include <nanobind/nanobind.h>

#ifdef Py_LIMITED_API
// Part of the stable ABI from Python 3.13 on; null in 3.12.
extern "C" int PyObject_GetOptionalAttr(PyObject*, PyObject*, PyObject**) __attribute__((weak));
#endif

namespace stepwatch::python {

// Clears the error that is set, if any. An error that is not an Exception, such as the KeyboardInterrupt of a signal
// during a call to torch, is for the trainer: it is raised again when the main thread continues.
void ClearError();

class Ref : public nanobind::object {
 public:
  Ref() = default;
  // Takes ownership of a new reference; null makes an empty one.
  explicit Ref(PyObject* owned) : nanobind::object(owned, nanobind::detail::steal_t()) {}
  static Ref Borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
};

// A name made once: an attribute look-up by a C string makes a Python string each time.
class Name {
 public:
  explicit Name(const char* text) : text_(PyUnicode_InternFromString(text)) {}
  PyObject* ptr() const { return text_.ptr(); }

 private:
  Ref text_;
};

// The attribute, or an empty reference; leaves no error set, and creates none for a missing attribute where Python can
// avoid that.
inline Ref Attribute(PyObject* object, const Name& name) {
  PyObject* found = nullptr;
#if defined(Py_LIMITED_API)
  if (PyObject_GetOptionalAttr == nullptr) {
    found = PyObject_GetAttr(object, name.ptr());
    if (found == nullptr) ClearError();
    return Ref(found);
  }
  const int result = PyObject_GetOptionalAttr(object, name.ptr(), &found);
#elif PY_VERSION_HEX >= 0x030D0000
  const int result = PyObject_GetOptionalAttr(object, name.ptr(), &found);
#else
  const int result = _PyObject_LookupAttr(object, name.ptr(), &found);
#endif
  if (result < 0) ClearError();
  return Ref(found);
}

// Returns the attribute that the object itself holds, or an empty reference. Does not call its class, whose
// `__getattr__` may be written in Python.
inline Ref OwnAttribute(PyObject* object, const Name& name) {
  const Ref own(PyObject_GenericGetDict(object, nullptr));
  PyObject* const found = own ? PyDict_GetItemWithError(own.ptr(), name.ptr()) : nullptr;
  if (found == nullptr) ClearError();
  return Ref::Borrow(found);
}

// The attribute, or an empty reference; leaves no error set.
inline Ref Attribute(PyObject* object, const char* name) {
  Ref found(PyObject_GetAttrString(object, name));
  if (!found) ClearError();
  return found;
}

// The result of a method with one argument, or an empty reference; leaves no error set.
inline Ref CallMethod(PyObject* object, const Name& name, PyObject* argument) {
  PyObject* const args[] = {object, argument};
  Ref found(PyObject_VectorcallMethod(name.ptr(), args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!found) ClearError();
  return found;
}

// The result of a method without arguments, or an empty reference; leaves no error set.
inline Ref CallMethod(PyObject* object, const Name& name) {
  Ref found(PyObject_VectorcallMethod(name.ptr(), &object, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!found) ClearError();
  return found;
}

inline Ref CallMethod(PyObject* object, const char* name) {
  Ref found(PyObject_CallMethod(object, name, nullptr));
  if (!found) ClearError();
  return found;
}

// The object of a weak reference, or an empty reference.
inline Ref Target(const Ref& weak) {
  Ref object(PyObject_CallNoArgs(weak.ptr()));
  if (!object) ClearError();
  return object && object.ptr() != Py_None ? object : Ref();
}

inline bool IsTrue(const Ref& object) {
  if (!object) return false;
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) ClearError();
  return truth > 0;
}

}  // namespace stepwatch::python
