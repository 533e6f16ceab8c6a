// What torch calls, each with a tap behind it. A copy of a hooked model (deepcopy, pickle) must not write rows under
// the names of the original: its hooks are inert, and load where Stepwatch is not installed. None of them raises: who
// moves hooks to another module calls them with other arguments, and those that a hook does not know are not looked at.
#pragma once

#include <memory>

#include "front_ends/python/native/module_tap.h"
#include "front_ends/python/native/parameter_taps.h"
#include "front_ends/python/native/returned_leaf.h"

namespace stepwatch::python {

// As hook(module, args, kwargs) or hook(module, args).
struct BeforeForward {
  std::shared_ptr<ModuleTap> tap;
  void Call(PyObject* args) const;
};

// As hook(module, args, kwargs, output) or hook(module, args, output).
struct AfterForward {
  std::shared_ptr<ModuleTap> tap;
  void Call(PyObject* args) const;
};

// As hook(parameter).
struct UnreducedHook {
  std::shared_ptr<ParameterTap> tap;
  void Call(PyObject* args) const;
};

// As hook(gradient), of a parameter.
struct IncomingHook {
  std::shared_ptr<ParameterTap> tap;
  void Call(PyObject* args) const;
};

// As hook(gradients of what it takes, gradients of what it gives), of a node of the graph.
struct ConsumerCallable {
  ConsumerHook hook;
  void Call(PyObject* args) const;
};

// As hook(gradient), of an activation.
struct GradientCallable {
  GradientPlace place;
  void Call(PyObject* args) const;
};

// As hook(gradient), of a leaf that a module returns.
struct ReturnedLeafHook {
  std::shared_ptr<ReturnedLeaf> returned;
  void Call(PyObject* args) const;
};

}  // namespace stepwatch::python
