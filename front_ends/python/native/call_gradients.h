// Python's side of the gradients of a call.
//
// A gradient that has not come when the step ends gives a row, provided that any gradient of the call has come. As
// torch's full backward hooks have it: of zeros for a positional tensor beside an argument that has a gradient, and of
// nan for an argument that is no tensor and for an output that nothing used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "front_ends/python/native/context.h"
#include "front_ends/python/native/zeros_like.h"
#include "front_ends/shared/call_gradients.h"

namespace stepwatch::python {

struct PythonTensors {
  using Context = python::Context;
  using Handle = Ref;
  using Given = PyObject*;
  struct Mutex {  // the GIL
    void lock() const {}
    void unlock() const {}
  };

  static bool IsNone(PyObject* gradient) { return gradient == Py_None; }
  static Ref Detach(PyObject* gradient) { return CallMethod(gradient, "detach"); }
  static Ref Add(const Ref& sum, const Ref& part) { return part ? Ref(PyNumber_Add(sum.ptr(), part.ptr())) : Ref(); }
  static PyObject* Give(const Ref& sum) { return sum ? sum.ptr() : Py_None; }
  static std::string Describe(const Context& context, PyObject* gradient) { return context.reader.Describe(gradient); }
};

class CallGradients final : public front_end::CallGradients<PythonTensors> {
 public:
  using front_end::CallGradients<PythonTensors>::CallGradients;

  // One more part of the gradient of an output that is not the outside's: that of a node inside the call that takes it.
  void ExpectPartOfOutput(uint16_t element) { ExpectPart(&outputs_, element); }
  // The input expected last is a tensor among several arguments.
  void LastInputIs(const TensorView& tensor) {
    if (tensor.dtype != DType::kOther) LastInputHasZeros(ZerosLike(tensor));
  }
  // The whole gradient, when the parts from inside have come; the row has what comes from outside.
  void OnOutput(uint16_t element, PyObject* gradient) noexcept;
  void OnPartOfOutput(uint16_t element, PyObject* gradient) noexcept;
};

// An input or an output of a call.
struct GradientPlace {
  std::shared_ptr<CallGradients> call;
  uint16_t element;
  bool is_input;

  void Give(PyObject* gradient) const noexcept {
    if (is_input) {
      call->OnInput(element, gradient);
    } else {
      call->OnOutput(element, gradient);
    }
  }
};

}  // namespace stepwatch::python
