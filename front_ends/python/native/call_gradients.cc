#include "front_ends/python/native/call_gradients.h"

#include <utility>

namespace stepwatch::python {
namespace {

// Returns the gradient from outside the call, or None if all of it is from inside. Autograd passes a single gradient on
// unchanged, in the same memory, and several as their sum; comparing sums would wait for a device.
Ref WithoutParts(PyObject* gradient, const Ref& parts, bool are_several) {
  const Ref whole = CallMethod(gradient, "detach");
  if (!whole) return whole;
  const Ref its_place = CallMethod(whole.ptr(), "data_ptr");
  const Ref place_of_parts = CallMethod(parts.ptr(), "data_ptr");
  bool same =
      its_place && place_of_parts && PyObject_RichCompareBool(its_place.ptr(), place_of_parts.ptr(), Py_EQ) == 1;
  if (!same && are_several && IsTrue(Attribute(whole.ptr(), "is_cpu")))
    same = IsTrue(Ref(PyObject_CallMethod(whole.ptr(), "equal", "O", parts.ptr())));
  return same ? Ref::Borrow(Py_None) : Ref(PyNumber_Subtract(whole.ptr(), parts.ptr()));
}

}  // namespace

void CallGradients::OnPartOfOutput(uint16_t element, PyObject* gradient) noexcept {
  Guarded(context(), "the hook of a part of a gradient", [&] {
    Element* const expected = Find(&outputs_, element);
    if (expected != nullptr && !is_over()) AddPart(expected, gradient);
  });
}

void CallGradients::OnOutput(uint16_t element, PyObject* gradient) noexcept {
  Ref outside;
  Guarded(context(), "the hook of the gradient of an output", [&] {
    Element* const expected = Find(&outputs_, element);
    if (expected == nullptr || expected->come == 0) return;
    const bool are_several = expected->come > 1;
    const Ref parts = TakeSum(expected);
    if (parts && gradient != Py_None) outside = WithoutParts(gradient, parts, are_several);
  });
  front_end::CallGradients<PythonTensors>::OnOutput(element, outside ? outside.ptr() : gradient);
}

}  // namespace stepwatch::python
