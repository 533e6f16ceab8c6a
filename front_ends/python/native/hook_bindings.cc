// The callables for torch's hooks.
#include <nanobind/nanobind.h>

#include "front_ends/python/native/hook_callables.h"

namespace nb = nanobind;

namespace stepwatch::python {
namespace {

PyObject* NewNone() {
  Py_INCREF(Py_None);
  return Py_None;
}

// The i-th argument, or null.
PyObject* Argument(PyObject* args, Py_ssize_t i) {
  return i < NB_TUPLE_GET_SIZE(args) ? NB_TUPLE_GET_ITEM(args, i) : nullptr;
}

// Sets the slot itself, because a hook is called thousands of times a step: a bound method would double its cost.
template <class Hook>
PyObject* CallSlot(PyObject* self, PyObject* args, PyObject*) {
  nb::inst_ptr<Hook>(self)->Call(args);
  return NewNone();
}

// As a Python function: a copy must load where Stepwatch is not installed. Accepts any positional arguments and returns
// None.
nb::tuple InertHook() {
  const nb::object context = nb::module_::import_("contextlib").attr("nullcontext")();
  return nb::make_tuple(nb::module_::import_("builtins").attr("getattr"), nb::make_tuple(context, "__exit__"));
}

template <class Hook>
void BindHook(nb::module_& m, const char* name) {
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&CallSlot<Hook>)}, {0, nullptr}};
  nb::class_<Hook> bound(m, name, nb::type_slots(slots));
  bound.def("__reduce__", [](const Hook&) { return InertHook(); });
  // Torch warns about hooks without it when a parameter is sent to another process.
  bound.attr("__torch_unserializable__") = true;
}

}  // namespace

void BeforeForward::Call(PyObject* args) const {
  PyObject* const module = Argument(args, 0);
  PyObject* const given = Argument(args, 1);
  PyObject* const named = Argument(args, 2);
  if (given == nullptr || !PyTuple_Check(given)) return;
  if (named != nullptr && PyDict_Check(named)) return tap->Before(module, given, named);
  if (const Ref none = Ref(PyDict_New())) tap->Before(module, given, none.ptr());
}

void AfterForward::Call(PyObject* args) const {
  const Py_ssize_t count = NB_TUPLE_GET_SIZE(args);
  if (count == 3 || count == 4) tap->After(Argument(args, count - 1));
}

void UnreducedHook::Call(PyObject*) const {
  tap->OnAccumulated();
}

void IncomingHook::Call(PyObject* args) const {
  if (PyObject* const gradient = Argument(args, 0)) tap->OnIncoming(gradient);
}

void GradientCallable::Call(PyObject* args) const {
  if (PyObject* const gradient = Argument(args, 0)) place.Give(gradient);
}

void ReturnedLeafHook::Call(PyObject* args) const {
  if (PyObject* const gradient = Argument(args, 0)) returned->OnGradient(gradient);
}

void ConsumerCallable::Call(PyObject* args) const {
  if (PyObject* const gradients = Argument(args, 0)) hook.Call(gradients);
}

void BindHooks(nb::module_& m) {
  m.def("inert_hook", &InertHook,
        "Return the value of a hook's __reduce__: a copy of the model gets a hook without effect.");
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
