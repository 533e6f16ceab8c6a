// The gradient of a leaf of the graph that a module returns unchanged: a bias that another module adds, or the input
// that a pipeline stage passes on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/python_graph.h"

namespace stepwatch::python {

// Waits for the gradient of one leaf. A hook on a leaf outlives the graph, and does not identify its call: backward
// passes are assumed to come in the order of their forward passes, and the gradient to be that of all calls of one
// micro-batch.
class ReturnedLeaf {
 public:
  void Expect(GradientPlace place) { waiting_.push_back(std::move(place)); }
  // The step is over: gradients that have not come have no row.
  void Forget() { waiting_.clear(); }
  // Called by the hook, on an autograd thread.
  void OnGradient(PyObject* gradient) noexcept;

 private:
  std::deque<GradientPlace> waiting_;
};

// The leaves of one module. A hook stays on a parameter until `Clear`, so that it is added once; the lifetime of any
// other leaf is unknown, so its hook is removed when the step is over.
class ReturnedLeaves {
 public:
  // `leaf` is the output at this place.
  void Watch(PyObject* leaf, bool is_parameter, GradientPlace place);
  void EndStep() noexcept;
  // Removes the hooks.
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
