// The callables that torch calls, each with a tap behind it. A copy of a hooked model (deepcopy, pickle) must not write
// rows under the names of the original: its hooks are inert, and load where Stepwatch is not installed. No callable
// raises: code that moves hooks to another module calls them with other arguments, and a hook ignores arguments that it
// does not expect.
#pragma once

#include <memory>

#include "front_ends/python/native/module_tap.h"
#include "front_ends/python/native/parameter_taps.h"
#include "front_ends/python/native/returned_leaf.h"

namespace stepwatch::python {

// Called as hook(module, args, kwargs) or hook(module, args).
struct BeforeForward {
  std::shared_ptr<ModuleTap> tap;
};

// Called as hook(module, args, kwargs, output) or hook(module, args, output).
struct AfterForward {
  std::shared_ptr<ModuleTap> tap;
};

// Called as hook(parameter).
struct UnreducedHook {
  std::shared_ptr<ParameterTap> tap;
};

// Called as hook(gradient), for a parameter.
struct IncomingHook {
  std::shared_ptr<ParameterTap> tap;
};

// Called as hook(gradient), for a leaf that a module returns.
struct ReturnedLeafHook {
  std::shared_ptr<ReturnedLeaf> returned;
};

}  // namespace stepwatch::python
