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

void Call(const BeforeForward& hook, PyObject* args) {
  PyObject* const module = Argument(args, 0);
  PyObject* const arguments = Argument(args, 1);
  PyObject* const keywords = Argument(args, 2);
  if (arguments == nullptr || !PyTuple_Check(arguments)) return;
  if (keywords != nullptr && PyDict_Check(keywords)) return hook.tap->Before(module, arguments, keywords);
  if (const Ref none = Ref(PyDict_New())) hook.tap->Before(module, arguments, none.ptr());
}

void Call(const AfterForward& hook, PyObject* args) {
  const Py_ssize_t count = NB_TUPLE_GET_SIZE(args);
  if (count == 3 || count == 4) hook.tap->After(Argument(args, count - 1));
}

void Call(const UnreducedHook& hook, PyObject*) {
  hook.tap->OnAccumulated();
}

void Call(const IncomingHook& hook, PyObject* args) {
  if (PyObject* const gradient = Argument(args, 0)) hook.tap->OnIncoming(gradient);
}

// Called as hook(gradient), for an activation.
void Call(const GradientPlace& place, PyObject* args) {
  if (PyObject* const gradient = Argument(args, 0)) place.Deliver(gradient);
}

void Call(const ReturnedLeafHook& hook, PyObject* args) {
  if (PyObject* const gradient = Argument(args, 0)) hook.returned->OnGradient(gradient);
}

// Called as hook(gradients of the node's inputs, gradients of its outputs), for a node of the graph.
void Call(const ConsumerHook& hook, PyObject* args) {
  PyObject* const gradients = Argument(args, 0);
  if (gradients == nullptr || !PyTuple_Check(gradients)) return;
  hook.Deliver(static_cast<size_t>(NB_TUPLE_GET_SIZE(gradients)),
               [&](size_t i) { return NB_TUPLE_GET_ITEM(gradients, static_cast<Py_ssize_t>(i)); });
}

// Sets the slot itself, because a hook is called thousands of times a step: a bound method would double its cost.
template <class Hook>
PyObject* CallSlot(PyObject* self, PyObject* args, PyObject*) {
  Call(*nb::inst_ptr<Hook>(self), args);
  return NewNone();
}

// As a Python function: a copy must load where Stepwatch is not installed. Accepts any positional arguments; returns
// `None`.
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

void BindHooks(nb::module_& m) {
  m.def("inert_hook", &InertHook,
        "Return the value of a hook's __reduce__: a copy of the model gets a hook without effect.");
  BindHook<BeforeForward>(m, "BeforeForward");
  BindHook<AfterForward>(m, "AfterForward");
  BindHook<UnreducedHook>(m, "UnreducedHook");
  BindHook<IncomingHook>(m, "IncomingHook");
  BindHook<GradientPlace>(m, "GradientHook");
  BindHook<ConsumerHook>(m, "ConsumerHook");
  BindHook<ReturnedLeafHook>(m, "ReturnedLeafHook");
}

Ref MakeCallable(GradientPlace place) {
  return Ref(nb::cast(std::move(place)).release().ptr());
}

Ref MakeCallable(ConsumerHook hook) {
  return Ref(nb::cast(std::move(hook)).release().ptr());
}

Ref MakeCallable(std::shared_ptr<ReturnedLeaf> returned) {
  return Ref(nb::cast(ReturnedLeafHook{std::move(returned)}).release().ptr());
}

Ref MakeCallable(std::shared_ptr<ParameterTap> tap) {
  return Ref(nb::cast(UnreducedHook{std::move(tap)}).release().ptr());
}

}  // namespace stepwatch::python
