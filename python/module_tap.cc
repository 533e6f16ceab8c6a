#include "python/module_tap.h"

#include <utility>

namespace stepwatch::python {
namespace {

// Sets an item of a fresh tuple or dict that this thread alone knows.
Ref CopyOfTuple(PyObject* tuple) {
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  Ref copy(PyTuple_New(size));
  for (Py_ssize_t i = 0; copy && i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Py_INCREF(item);
    PyTuple_SET_ITEM(copy.ptr(), i, item);
  }
  return copy;
}

void SetItem(PyObject* tuple, Py_ssize_t i, const Ref& item) {
  Py_INCREF(item.ptr());
  PyObject* const old = PyTuple_GET_ITEM(tuple, i);
  PyTuple_SET_ITEM(tuple, i, item.ptr());
  Py_DECREF(old);
}

}  // namespace

bool ModuleTap::NeedsGradient(PyObject* tensor) const {
  return IsTrue(Attribute(tensor, context_->names.requires_grad));
}

bool ModuleTap::IsLeaf(PyObject* tensor) const {
  return IsTrue(Attribute(tensor, context_->names.is_leaf));
}

void ModuleTap::HangOn(PyObject* tensor, GradientHook hook) const {
  const Ref callable = MakeCallable(std::move(hook));
  if (callable) context_->tensor_hooks.Hang(context_->names, tensor, callable.ptr());
}

// Scripted modules hold it elsewhere.
bool ModuleTap::IsTraining(PyObject* module) const {
  const Ref own = OwnAttribute(module, context_->names.training);
  return IsTrue(own ? own : Attribute(module, context_->names.training));
}

ModuleTap::ModuleTap(std::shared_ptr<Context> context, int chunk, std::string key, bool is_root)
    : context_(std::move(context)), chunk_(chunk), key_(std::move(key)), is_root_(is_root) {}

ModuleTap::~ModuleTap() {
  ForgetCalls();
}

void ModuleTap::ForgetCalls() noexcept {
  for (const Call& call : running_)
    for (const Record& record : call.inputs)
      if (context_->monitor != nullptr) context_->monitor->Discard(record);
  running_.clear();
}

front_end::CallPosition ModuleTap::NextCall(bool recomputes) noexcept {
  // What a checkpoint recomputes comes in the middle of the backward pass, perhaps of another micro-batch.
  if (recomputes) return recomputed_calls_.Next(context_->step, 0, context_->grad_acc_steps);
  const auto chunk = static_cast<size_t>(chunk_);
  if (is_root_) context_->roots[chunk]->Add(context_->step);
  return calls_.Next(context_->step, context_->MicroBatchesBegun(chunk), context_->grad_acc_steps);
}

Ref ModuleTap::Before(PyObject* module, PyObject* args, PyObject* kwargs) noexcept {
  Monitor* const monitor = context_->Collecting();
  if (monitor == nullptr) return {};
  Ref replaced;
  Guarded(*context_, "watching a module", [&] {
    if (!IsTraining(module)) return;
    Call call;
    call.recomputes = context_->InBackward();
    call.at = NextCall(call.recomputes);
    if (!sites_.any() && context_->structure == nullptr) return;
    if (!call.recomputes) ReadInputs(*monitor, args, kwargs, &call);
    if ((sites_.any_grad() || context_->structure != nullptr) && context_->GradientsEnabled())
      replaced = WatchInputs(module, args, kwargs, &call);
    running_.push_back(std::move(call));
  });
  return replaced;
}

void ModuleTap::ReadInputs(Monitor& monitor, PyObject* args, PyObject* kwargs, Call* call) {
  if (sites_.input == kNoSite && context_->structure == nullptr) return;
  for (const FoundTensor& found : TensorsInArguments(context_->reader, args, kwargs)) {
    if (context_->structure != nullptr) call->structure.elements.push_back(context_->reader.Describe(found.tensor));
    if (sites_.input == kNoSite) continue;
    const Observation at{sites_.input, call->at.micro_step, found.element, call->at.call};
    Record record;
    if (context_->Measure(monitor, SiteKind::kActv, at, found.tensor, &record)) call->inputs.push_back(record);
  }
}

// Positional arguments keep their position as their number, whatever they are; keyword values follow on.
Ref ModuleTap::WatchInputs(PyObject* module, PyObject* args, PyObject* kwargs, Call* call) {
  call->gradients = std::make_shared<CallGradients>(context_, sites_, call->at);
  const bool writes_input = writes_input_ || IsTrue(OwnAttribute(module, context_->names.inplace));
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  Ref new_args, new_kwargs;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const uint16_t element = count == 1 ? kNoElement : static_cast<uint16_t>(i);
    PyObject* const value = PyTuple_GET_ITEM(args, i);
    call->gradients->ExpectInput(element);
    if (!context_->reader.IsTensor(value)) continue;
    if (!NeedsGradient(value)) {
      if (element != kNoElement) call->gradients->LastInputIs(context_->reader.Read(value).view);
      continue;
    }
    if (Ref alias = AliasOf(value, writes_input, element, call)) {
      if (!new_args) new_args = CopyOfTuple(args);
      SetItem(new_args.ptr(), i, alias);
    }
  }
  uint16_t element = static_cast<uint16_t>(count);
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(kwargs, &i, &key, &value) != 0;) {
    if (!context_->reader.IsTensor(value)) continue;
    const uint16_t number = count == 0 && PyDict_Size(kwargs) == 1 ? kNoElement : element++;
    call->gradients->ExpectInput(number);
    if (!NeedsGradient(value)) continue;
    if (Ref alias = AliasOf(value, writes_input, number, call)) {
      if (!new_kwargs) new_kwargs = Ref(PyDict_Copy(kwargs));
      PyDict_SetItem(new_kwargs.ptr(), key, alias.ptr());
    }
  }
  if (!new_args && !new_kwargs) return {};
  if (!new_args) new_args = Ref::Borrow(args);
  if (!new_kwargs) new_kwargs = Ref::Borrow(kwargs);
  return Ref(PyTuple_Pack(2, new_args.ptr(), new_kwargs.ptr()));
}

// Other users of the input hold the input itself, so only what flows back through this module arrives at its alias. An
// argument that is given twice stays one object, which some modules look at; its gradient is that of both.
//
// A module that writes into its input would take the alias's history away; there the hook sits on the input, where it
// sees the gradient of what the input was before. Nothing: no alias is to be handed over.
Ref ModuleTap::AliasOf(PyObject* tensor, bool writes_input, uint16_t element, Call* call) {
  for (const Alias& other : call->aliases)
    if (other.input.ptr() == tensor) return other.tensor;
  if (writes_input) {
    if (!IsLeaf(tensor) && !IsTrue(CallMethod(tensor, "_is_view"))) {
      HangOn(tensor, {call->gradients, element, true});
      if (element != kNoElement) call->gradients->LastInputIs(context_->reader.Read(tensor).view);
    }
    return {};
  }
  Ref alias = CallMethod(tensor, context_->names.view_as, tensor);
  if (!alias) return {};
  HangOn(alias.ptr(), {call->gradients, element, true});
  if (element != kNoElement) call->gradients->LastInputIs(context_->reader.Read(tensor).view);
  call->aliases.push_back({alias, Ref::Borrow(tensor), VersionOf(context_->names, alias.ptr())});
  return alias;
}

void ModuleTap::FinishInputs(Call* call) {
  for (const Alias& alias : call->aliases)
    if (VersionOf(context_->names, alias.tensor.ptr()) != alias.version) writes_input_ = true;
  call->aliases.clear();
}

void ModuleTap::After(PyObject* output) noexcept {
  if (running_.empty()) return;
  Call call = std::move(running_.back());
  running_.pop_back();
  Monitor* const monitor = context_->monitor;
  if (monitor == nullptr) return;
  Guarded(*context_, "reading a module's output", [&] {
    FinishInputs(&call);
    for (const Record& record : call.inputs) monitor->Enqueue(record);
    const std::vector<FoundTensor> outputs = TensorsInResult(context_->reader, output);
    if (!call.recomputes) ReadOutputs(*monitor, outputs, call);
    if (call.gradients != nullptr) WatchOutputs(outputs, &call);
    if (context_->structure != nullptr && !call.recomputes) DescribeCall(output, outputs, &call);
  });
}

void ModuleTap::ReadOutputs(Monitor& monitor, const std::vector<FoundTensor>& outputs, const Call& call) {
  if (sites_.output == kNoSite) return;
  for (const FoundTensor& found : outputs) {
    const Observation at{sites_.output, call.at.micro_step, found.element, call.at.call};
    if (found.tensor != nullptr) {
      context_->Observe(monitor, SiteKind::kActv, at, found.tensor);
    } else {
      monitor.ObserveMissing(at);
    }
  }
}

// A leaf among the outputs is somebody's parameter: a hook on it would stay for ever.
void ModuleTap::WatchOutputs(const std::vector<FoundTensor>& outputs, Call* call) {
  for (const FoundTensor& found : outputs) {
    call->gradients->ExpectOutput(found.element);
    if (found.tensor == nullptr || !NeedsGradient(found.tensor) || IsLeaf(found.tensor)) continue;
    HangOn(found.tensor, {call->gradients, found.element, false});
  }
}

void ModuleTap::DescribeCall(PyObject* output, const std::vector<FoundTensor>& outputs, Call* call) {
  call->structure.config = "list[" + std::to_string(call->structure.elements.size()) + "]";
  front_end::PortStructure port;
  port.config = KindOfResult(context_->reader, output);
  for (const FoundTensor& found : outputs)
    port.elements.push_back(found.tensor == nullptr ? front_end::kNoTensor : context_->reader.Describe(found.tensor));
  const int entry = context_->structure->AddForward(key_, std::move(call->structure), std::move(port));
  if (call->gradients != nullptr) call->gradients->Describe(context_->structure, entry);
}

}  // namespace stepwatch::python
