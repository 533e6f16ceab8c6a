// The gradient of a leaf of the graph that a module returns as it is: a bias that somebody else adds, the input of a
// pipeline's stage that hands it on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "front_ends/python/native/call_gradients.h"
#include "front_ends/python/native/py_ref.h"

namespace stepwatch::python {

// Waits for the gradient of one leaf. A hook on a leaf lives on when a graph is gone, and does not say which call it is
// called for: backward passes are taken to come in the order of their forward passes, and the gradient to be that of
// all calls of one micro-batch.
class ReturnedLeaf {
 public:
  void Expect(GradientPlace place) { waiting_.push_back(std::move(place)); }
  // The step is over: what has not come by now has no row.
  void Forget() { waiting_.clear(); }
  // Called by the hook, on an autograd thread.
  void OnGradient(PyObject* gradient) noexcept;

 private:
  std::deque<GradientPlace> waiting_;
};

// Those of one module. A hook stays on a parameter until `Clear`, so that it is hung once; any other leaf may be
// somebody's for ever, or nobody's when the step is over: its hook comes off then.
class ReturnedLeaves {
 public:
  // `leaf` is what stands in this place.
  void Watch(PyObject* leaf, bool is_parameter, GradientPlace place);
  void EndStep() noexcept;
  // Takes the hooks off.
  void Clear() noexcept;

 private:
  struct Watched {
    Ref leaf;  // a weak reference
    bool is_parameter;
    std::shared_ptr<ReturnedLeaf> returned;
    Ref handle;  // torch's
  };
  Watched* Find(PyObject* leaf);

  std::vector<Watched> watched_;
};

// Defined with the bindings: the Python callable of a hook.
Ref MakeCallable(std::shared_ptr<ReturnedLeaf> returned);

}  // namespace stepwatch::python
