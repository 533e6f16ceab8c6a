// The gradient of a parameter that a module returns as it is: a bias that somebody else adds.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "front_ends/python/native/call_gradients.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// Waits for the gradient of one parameter of one module. A hook on a parameter lives on when a graph is gone, and does
// not say which call it is called for: backward passes are taken to come in the order of their forward passes, and the
// gradient to be that of all calls of one micro-batch.
class ReturnedParameter {
 public:
  void Expect(std::shared_ptr<CallGradients> call, uint16_t element) { waiting_.push_back({std::move(call), element}); }
  // Called by the hook, on an autograd thread.
  void OnGradient(PyObject* gradient) noexcept;

 private:
  struct Waiting {
    std::shared_ptr<CallGradients> call;
    uint16_t element;
  };
  std::deque<Waiting> waiting_;
};

// Those of one module.
class ReturnedParameters {
 public:
  // `parameter` is output `element` of a call.
  void Watch(PyObject* parameter, std::shared_ptr<CallGradients> call, uint16_t element);
  // Takes the hooks off.
  void Clear() noexcept;

 private:
  struct Watched {
    PyObject* parameter;  // borrowed: to be compared alone
    std::shared_ptr<ReturnedParameter> returned;
    Ref handle;  // torch's
  };
  std::vector<Watched> watched_;
};

// Defined with the bindings: the Python callable of a hook.
Ref MakeCallable(std::shared_ptr<ReturnedParameter> returned);

}  // namespace stepwatch::python
