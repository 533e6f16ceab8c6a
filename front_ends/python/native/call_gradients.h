// The Python side of a call's gradients.
//
// A gradient that has not come when the step ends has a row if any gradient of the call has come. As in torch's full
// backward hooks, the row is that of zeros for a positional tensor beside an argument with a gradient, and of nan for
// an argument that is not a tensor and for an unused output.
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

  // Adds a part of the gradient of an output that is not from outside: that of a node inside the call that uses the
  // output.
  void ExpectPartOfOutput(uint16_t element) { ExpectPart(&outputs_, element); }
  // Marks the input expected last as a tensor among several arguments.
  void LastInputIs(const TensorView& tensor) {
    if (tensor.dtype != DType::kOther) LastInputHasZeros(ZerosLike(tensor));
  }
  // The whole gradient, once the parts from inside have come; the row has the part from outside.
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
