// What torch calls, each with a tap behind it. A copy of a hooked model (deepcopy, pickle) must not write rows under
// the names of the original: its hooks are inert.
#pragma once

#include <memory>

#include "front_ends/python/native/module_tap.h"
#include "front_ends/python/native/parameter_taps.h"
#include "front_ends/python/native/returned_leaf.h"

namespace stepwatch::python {

// As hook(module, args, kwargs).
struct BeforeForward {
  static constexpr Py_ssize_t kArguments = 3;
  std::shared_ptr<ModuleTap> tap;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(module, args, kwargs, output).
struct AfterForward {
  static constexpr Py_ssize_t kArguments = 4;
  std::shared_ptr<ModuleTap> tap;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(parameter).
struct UnreducedHook {
  static constexpr Py_ssize_t kArguments = 1;
  std::shared_ptr<ParameterTap> tap;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(gradient), of a parameter.
struct IncomingHook {
  static constexpr Py_ssize_t kArguments = 1;
  std::shared_ptr<ParameterTap> tap;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(gradients of what it takes, gradients of what it gives), of a node of the graph.
struct ConsumerCallable {
  static constexpr Py_ssize_t kArguments = 2;
  ConsumerHook hook;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(gradient), of an activation.
struct GradientCallable {
  static constexpr Py_ssize_t kArguments = 1;
  GradientPlace place;
  PyObject* Call(PyObject* const* args) const;
};

// As hook(gradient), of a leaf that a module returns.
struct ReturnedLeafHook {
  static constexpr Py_ssize_t kArguments = 1;
  std::shared_ptr<ReturnedLeaf> returned;
  PyObject* Call(PyObject* const* args) const;
};

}  // namespace stepwatch::python
