// The callables that torch's hooks are given.
#include <nanobind/nanobind.h>

#include "front_ends/python/native/hook_callables.h"

namespace nb = nanobind;

namespace stepwatch::python {
namespace {

struct InertHook {
  void Call(const nb::args&, const nb::kwargs&) const {}
};

PyObject* NewNone() {
  Py_INCREF(Py_None);
  return Py_None;
}

// The slot itself, because a hook is called thousands of times a step: by way of a bound method it would cost as much
// again as what it does.
template <class Hook>
PyObject* CallSlot(PyObject* self, PyObject* args, PyObject*) {
  if (NB_TUPLE_GET_SIZE(args) != Hook::kArguments)
    return PyErr_Format(PyExc_TypeError, "a hook of this kind takes %zd arguments, not %zd", Hook::kArguments,
                        NB_TUPLE_GET_SIZE(args));
  PyObject* taken[Hook::kArguments];
  for (Py_ssize_t i = 0; i < Hook::kArguments; ++i) taken[i] = NB_TUPLE_GET_ITEM(args, i);
  return nb::inst_ptr<Hook>(self)->Call(taken);
}

template <class Hook>
void BindHook(nb::module_& m, const char* name) {
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&CallSlot<Hook>)}, {0, nullptr}};
  nb::class_<Hook> bound(m, name, nb::type_slots(slots));
  bound.def("__reduce__", [](const Hook&) { return nb::make_tuple(nb::type<InertHook>(), nb::make_tuple()); });
  // Torch warns of hooks without it when a parameter goes to another process.
  bound.attr("__torch_unserializable__") = true;
}

}  // namespace

PyObject* BeforeForward::Call(PyObject* const* args) const {
  tap->Before(args[0], args[1], args[2]);
  return NewNone();
}

PyObject* AfterForward::Call(PyObject* const* args) const {
  tap->After(args[3]);
  return NewNone();
}

PyObject* UnreducedHook::Call(PyObject* const*) const {
  tap->OnAccumulated();
  return NewNone();
}

PyObject* IncomingHook::Call(PyObject* const* args) const {
  tap->OnIncoming(args[0]);
  return NewNone();
}

PyObject* GradientCallable::Call(PyObject* const* args) const {
  place.Give(args[0]);
  return NewNone();
}

PyObject* ReturnedLeafHook::Call(PyObject* const* args) const {
  returned->OnGradient(args[0]);
  return NewNone();
}

PyObject* ConsumerCallable::Call(PyObject* const* args) const {
  hook.Call(args[0]);
  return NewNone();
}

void BindHooks(nb::module_& m) {
  nb::class_<InertHook>(m, "InertHook", "The hook of a copied model: does nothing.")
      .def(nb::init<>())
      .def("__call__", &InertHook::Call)
      .def("__reduce__", [](const InertHook&) { return nb::make_tuple(nb::type<InertHook>(), nb::make_tuple()); });
  BindHook<BeforeForward>(m, "BeforeForward");
  BindHook<AfterForward>(m, "AfterForward");
  BindHook<UnreducedHook>(m, "UnreducedHook");
  BindHook<IncomingHook>(m, "IncomingHook");
  BindHook<GradientCallable>(m, "GradientHook");
  BindHook<ConsumerCallable>(m, "ConsumerHook");
  BindHook<ReturnedLeafHook>(m, "ReturnedLeafHook");
}

Ref MakeCallable(GradientPlace place) {
  return Ref(nb::cast(GradientCallable{std::move(place)}).release().ptr());
}

Ref MakeCallable(ConsumerHook hook) {
  return Ref(nb::cast(ConsumerCallable{std::move(hook)}).release().ptr());
}

Ref MakeCallable(std::shared_ptr<ReturnedLeaf> returned) {
  return Ref(nb::cast(ReturnedLeafHook{std::move(returned)}).release().ptr());
}

Ref MakeCallable(std::shared_ptr<ParameterTap> tap) {
  return Ref(nb::cast(UnreducedHook{std::move(tap)}).release().ptr());
}

}  // namespace stepwatch::python
