#include "front_ends/python/native/module_tap.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stepwatch::python {
namespace {

// Each output is compared with each other output: if there are more than this, the module is assumed to use none of
// them itself.
constexpr size_t kUsedOutputsMax = 64;

// The exception that the caller is handling, only to compare it.
const void* HandledException() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_GetExcInfo(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return value;
}

}  // namespace

void ConsumerHook::Call(PyObject* given) const noexcept {
  if (!PyTuple_Check(given)) return;
  for (const Consumer::Taken& each : taken) {
    if (each.position >= NB_TUPLE_GET_SIZE(given)) continue;
    PyObject* const gradient = NB_TUPLE_GET_ITEM(given, each.position);
    if (are_inputs) {
      gradients->OnPartOfInput(each.element, gradient);
    } else {
      gradients->OnPartOfOutput(each.element, gradient);
    }
  }
}

bool ModuleTap::NeedsGradient(PyObject* tensor) const {
  return IsTrue(Attribute(tensor, context_->names.requires_grad));
}

void ModuleTap::HangOn(PyObject* tensor, GradientPlace place) const {
  const Ref callable = MakeCallable(std::move(place));
  if (callable) context_->tensor_hooks.Hang(context_->names, tensor, callable.ptr());
}

void ModuleTap::HangOn(Consumer* consumer, bool are_inputs, Call* call) const {
  const Ref hook = MakeCallable(ConsumerHook{call->gradients, std::move(consumer->taken), are_inputs});
  if (hook) (void)CallMethod(consumer->node.ptr(), context_->names.register_hook, hook.ptr());
}

// Scripted modules store it elsewhere.
bool ModuleTap::IsTraining(PyObject* module) const {
  const Ref own = OwnAttribute(module, context_->names.training);
  return IsTrue(own ? own : Attribute(module, context_->names.training));
}

ModuleTap::ModuleTap(std::shared_ptr<Context> context, int chunk, bool is_root, uint32_t index)
    : context_(std::move(context)), chunk_(chunk), is_root_(is_root), index_(index) {}

ModuleTap::~ModuleTap() {
  DiscardCalls();
}

void ModuleTap::WantNothing() {
  sites_ = ModuleSites();
  was_called_ = false;
  returned_.Clear();
  DiscardCalls();
}

void ModuleTap::Detach() {
  WantNothing();
  is_detached_ = true;
}

void ModuleTap::EndStep() noexcept {
  DiscardCalls();
  returned_.EndStep();
}

void ModuleTap::DiscardCalls() noexcept {
  for (const Call& call : running_)
    for (const Record& record : call.inputs)
      if (context_->recorder != nullptr) context_->recorder->Discard(record);
  running_.clear();
}

front_end::CallPosition ModuleTap::NextCall(bool recomputes) noexcept {
  // A checkpoint recomputes during the backward pass, perhaps that of another micro-batch.
  if (recomputes) return recomputed_calls_.Next(context_->step, 0, context_->grad_acc_steps);
  const auto chunk = static_cast<size_t>(chunk_);
  if (is_root_) context_->roots[chunk]->Add(context_->step);
  return calls_.Next(context_->step, context_->MicroBatchesBegun(chunk), context_->grad_acc_steps);
}

void ModuleTap::Before(PyObject* module, PyObject* args, PyObject* kwargs) noexcept {
  Recorder* const recorder = context_->Collecting();
  if (recorder == nullptr || context_->is_paused || is_detached_) return;
  Guarded(*context_, "watching a module", [&] {
    if (!IsTraining(module)) return;
    was_called_ = true;
    Call call;
    call.recomputes = context_->InBackward();
    call.at = NextCall(call.recomputes);
    if (!recorder->collects(sites_.groups) && context_->structure == nullptr) return;
    recorder->NoteModule(index_, true, call.at.micro_step);
    call.handled = HandledException();
    if (!call.recomputes) ReadInputs(*recorder, args, kwargs, &call);
    if ((sites_.any_grad() || context_->structure != nullptr) && context_->GradientsEnabled())
      WatchInputs(args, kwargs, &call);
    running_.push_back(std::move(call));
  });
}

void ModuleTap::ReadInputs(Recorder& recorder, PyObject* args, PyObject* kwargs, Call* call) {
  if (sites_.input == kNoSite && context_->structure == nullptr) return;
  for (const FoundTensor& found : TensorsInArguments(context_->reader, args, kwargs)) {
    if (context_->structure != nullptr)
      call->structure.elements.push_back(context_->reader.Describe(found.tensor.ptr()));
    if (sites_.input == kNoSite) continue;
    const Observation at{sites_.input, call->at.micro_step, found.element, call->at.call};
    Record record;
    if (context_->Measure(recorder, SiteKind::kActv, at, found.tensor.ptr(), &record)) call->inputs.push_back(record);
  }
}

// Positional arguments of any type keep their position as their number; keyword values follow, then the tensors inside
// containers, in whose place there is no row.
void ModuleTap::WatchInputs(PyObject* args, PyObject* kwargs, Call* call) {
  call->gradients = std::make_shared<CallGradients>(context_, sites_, call->at);
  std::vector<FoundTensor> inside;
  const auto is_of_tensors = [&](PyObject* value) {
    if (context_->reader.IsTensor(value) || !IsContainer(value)) return false;
    std::vector<FoundTensor> found = TensorsInside(context_->reader, value);
    const bool any = !found.empty();
    std::move(found.begin(), found.end(), std::back_inserter(inside));
    return any;
  };
  const Py_ssize_t count = NB_TUPLE_GET_SIZE(args);
  bool any_row = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const value = NB_TUPLE_GET_ITEM(args, i);
    if (is_of_tensors(value)) continue;
    any_row = true;
    const uint16_t element = count == 1 ? kNoElement : static_cast<uint16_t>(i);
    call->gradients->ExpectInput(element);
    if (element != kNoElement && context_->reader.IsTensor(value) && !NeedsGradient(value))
      call->gradients->LastInputIs(context_->reader.Read(value).view);
    WatchInput(value, element, call);
  }
  uint16_t element = static_cast<uint16_t>(count);
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(kwargs, &i, &key, &value) != 0;) {
    if (!context_->reader.IsTensor(value)) {
      (void)is_of_tensors(value);
      continue;
    }
    any_row = true;
    const uint16_t number = count == 0 && PyDict_Size(kwargs) == 1 ? kNoElement : element++;
    call->gradients->ExpectInput(number);
    WatchInput(value, number, call);
  }
  if (!any_row) element = 0;
  for (const FoundTensor& found : inside) {
    const uint16_t number = !any_row && inside.size() == 1 ? kNoElement : element++;
    call->gradients->ExpectInput(number);
    WatchInput(found.tensor.ptr(), number, call);
  }
  if (!call->edges.empty()) call->first_sequence = context_->NextSequence();
}

// The gradient of an argument that is passed twice is that of both uses, and is recorded at the first.
void ModuleTap::WatchInput(PyObject* value, uint16_t element, Call* call) {
  if (sites_.input_grad == kNoSite && context_->structure == nullptr) return;
  if (!context_->reader.IsTensor(value) || !NeedsGradient(value)) return;
  GradientEdge edge = EdgeOf(context_->names, value, element);
  if (!edge.node) return;
  for (const GradientEdge& other : call->edges)
    if (other.Is(edge.node.ptr(), edge.output.ptr())) return;
  if (element != kNoElement) call->gradients->LastInputIs(context_->reader.Read(value).view);
  call->gradients->LastInputIsWatched();
  call->edges.push_back(std::move(edge));
  WatchBase(value, element, call);
}

// If a module changes a view in place, autograd routes its gradient through the view's base.
void ModuleTap::WatchBase(PyObject* value, uint16_t element, Call* call) {
  const Ref base = Attribute(value, context_->names.base);
  if (!base || base.ptr() == Py_None) return;
  if (context_->reader.Read(base.ptr()).view.numel != context_->reader.Read(value).view.numel) return;
  GradientEdge edge = EdgeOfNode(context_->names, base.ptr(), element);
  if (!edge.node) return;
  for (const GradientEdge& other : call->edges)
    if (other.Is(edge.node.ptr(), edge.output.ptr())) return;
  edge.of_base = true;
  call->edges.push_back(std::move(edge));
}

// Returns one edge for each output; a leaf has none, since no node has made it.
std::vector<GradientEdge> ModuleTap::EdgesOf(const std::vector<FoundTensor>& outputs) const {
  std::vector<GradientEdge> edges;
  for (const FoundTensor& found : outputs)
    edges.push_back(found.is_tensor() ? EdgeOfNode(context_->names, found.tensor.ptr(), found.element)
                                      : GradientEdge{});
  return edges;
}

// A module that returns an input unchanged adds no node to the graph: there the gradient is that of the tensor.
void ModuleTap::FinishReturned(PyObject* output, const GradientEdge& edge, bool is_leaf, Call* call) {
  const auto input = std::find_if(call->edges.begin(), call->edges.end(), [&](const GradientEdge& each) {
    return each.Is(edge.node.ptr(), edge.output.ptr());
  });
  if (input == call->edges.end()) return;
  const GradientPlace place{call->gradients, input->element, true};
  if (is_leaf) {
    returned_.Watch(output, context_->tensor_hooks.IsParameter(output), place);
  } else {
    HangOn(output, place);
  }
  call->edges.erase(input);
}

void ModuleTap::FinishInputs(const std::vector<FoundTensor>& outputs, const std::vector<GradientEdge>& of_outputs,
                             Call* call) {
  if (call->edges.empty()) return;
  std::vector<Ref> roots;
  for (size_t out = 0; out < outputs.size(); ++out) {
    PyObject* const output = outputs[out].tensor.ptr();
    const GradientEdge& edge = of_outputs[out];
    if (edge.node) {
      FinishReturned(output, edge, false, call);
      roots.push_back(edge.node);
    } else if (outputs[out].is_tensor() && NeedsGradient(output)) {
      const GradientEdge of_leaf = EdgeOf(context_->names, output, kNoElement);
      if (of_leaf.node) FinishReturned(output, of_leaf, true, call);
    }
  }
  std::vector<Consumer> consumers = FindConsumers(context_->names, std::move(roots), call->edges, call->first_sequence);
  KeepPartsOfOne(&consumers);
  for (Consumer& each : consumers) {
    for (const Consumer::Taken& taken : each.taken) call->gradients->ExpectPartOfInput(taken.element);
    HangOn(&each, true, call);
  }
  call->edges.clear();
}

void ModuleTap::After(PyObject* output) noexcept {
  if (running_.empty()) return;
  Call call = std::move(running_.back());
  running_.pop_back();
  Recorder* const recorder = context_->recorder;
  if (recorder == nullptr) return;
  recorder->NoteModule(index_, false, call.at.micro_step);
  if (output == Py_None && HandledException() != call.handled) {  // the module has raised
    for (const Record& record : call.inputs) recorder->Discard(record);
    return;
  }
  Guarded(*context_, "reading a module's output", [&] {
    for (const Record& record : call.inputs) recorder->Enqueue(record);
    const std::vector<FoundTensor> outputs = TensorsInResult(context_->reader, output);
    const std::vector<GradientEdge> edges = call.gradients == nullptr ? std::vector<GradientEdge>() : EdgesOf(outputs);
    FinishInputs(outputs, edges, &call);
    if (!call.recomputes) ReadOutputs(*recorder, outputs, call);
    if (call.gradients != nullptr) WatchOutputs(outputs, edges, &call);
    if (context_->structure != nullptr && !call.recomputes) DescribeCall(output, outputs, &call);
  });
}

void ModuleTap::ReadOutputs(Recorder& recorder, const std::vector<FoundTensor>& outputs, const Call& call) {
  if (sites_.output == kNoSite) return;
  for (const FoundTensor& found : outputs) {
    const Observation at{sites_.output, call.at.micro_step, found.element, call.at.call};
    if (found.is_tensor()) {
      context_->Observe(recorder, SiteKind::kActv, at, found.tensor.ptr());
    } else {
      recorder.ObserveMissing(at);
    }
  }
}

void ModuleTap::WatchOutputs(const std::vector<FoundTensor>& outputs, const std::vector<GradientEdge>& edges,
                             Call* call) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    call->gradients->ExpectOutput(outputs[i].element);
    if (!edges[i].node) {
      if (outputs[i].is_tensor()) WatchLeaf(outputs[i].tensor.ptr(), outputs[i].element, call);
      continue;
    }
    call->gradients->LastOutputIsWatched();
    HangOn(outputs[i].tensor.ptr(), {call->gradients, outputs[i].element, false});
  }
  if (sites_.output_grad != kNoSite || context_->structure != nullptr) WatchUsedOutputs(edges, call);
}

void ModuleTap::WatchLeaf(PyObject* output, uint16_t element, Call* call) {
  if (sites_.output_grad == kNoSite && context_->structure == nullptr) return;
  if (!NeedsGradient(output)) return;
  call->gradients->LastOutputIsWatched();
  returned_.Watch(output, context_->tensor_hooks.IsParameter(output), {call->gradients, element, false});
}

// Outputs that the module itself uses: logits beside the loss, the features of each stage.
void ModuleTap::WatchUsedOutputs(const std::vector<GradientEdge>& edges, Call* call) {
  if (edges.size() < 2 || edges.size() > kUsedOutputsMax) return;
  for (Consumer& each : FindConsumersAmong(context_->names, edges)) {
    for (const Consumer::Taken& taken : each.taken) call->gradients->ExpectPartOfOutput(taken.element);
    HangOn(&each, false, call);
  }
}

void ModuleTap::DescribeCall(PyObject* output, const std::vector<FoundTensor>& outputs, Call* call) {
  if (!name_in_structure_) return;
  call->structure.config = "list[" + std::to_string(call->structure.elements.size()) + "]";
  PortStructure port;
  port.config = KindOfResult(context_->reader, output);
  for (const FoundTensor& found : outputs)
    port.elements.push_back(!found.is_tensor() ? kNoTensor : context_->reader.Describe(found.tensor.ptr()));
  const int entry = context_->structure->AddForward(*name_in_structure_, std::move(call->structure), std::move(port));
  if (call->gradients != nullptr) call->gradients->Describe(context_->structure, entry);
}

}  // namespace stepwatch::python
