#include "front_ends/python/native/module_tap.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "front_ends/python/native/tensors_in.h"
#include "front_ends/python/native/zeros_like.h"

namespace stepwatch::python {
namespace {

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

bool ModuleTap::NeedsGradient(PyObject* tensor) const {
  return IsTrue(Attribute(tensor, context_->names.requires_grad));
}

// Scripted modules store it elsewhere.
bool ModuleTap::IsTraining(PyObject* module) const {
  const Ref own = OwnAttribute(module, context_->names.training);
  return IsTrue(own ? own : Attribute(module, context_->names.training));
}

ModuleTap::ModuleTap(std::shared_ptr<Context> context, int chunk, bool is_root, uint32_t index)
    : context_(std::move(context)), chunk_(chunk), is_root_(is_root), index_(index) {}

void ModuleTap::WantNothing() {
  sites_ = ModuleSites();
  was_called_ = false;
  returned_.Clear();
  running_.clear();
}

void ModuleTap::Detach() {
  WantNothing();
  is_detached_ = true;
}

void ModuleTap::EndStep() noexcept {
  running_.clear();
  returned_.EndStep();
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
  CatchAndReport(*context_, "watching a module", [&] {
    if (!IsTraining(module)) return;
    was_called_ = true;
    const bool recomputes = context_->InBackward();
    const front_end::CallPosition at = NextCall(recomputes);
    if (!recorder->collects(sites_.groups) && context_->structure == nullptr) return;
    recorder->NoteModule(index_, true, at.micro_step);
    Call call{{context_, recorder, sites_, at}, recomputes, HandledException()};
    if (!recomputes && call.rows.reads_inputs())
      for (const FoundTensor& found : TensorsInArguments(context_->reader, args, kwargs))
        call.rows.ReadInput(found.tensor(), found.element);
    if (call.rows.wants_gradients() && context_->GradientsEnabled())
      WatchInputs(args, kwargs, &call.rows.WatchGradients(PythonGraph(context_.get(), &returned_)));
    running_.push_back(std::move(call));
  });
}

// Positional arguments of any type keep their position as their number; keyword values follow, then the tensors inside
// containers, in whose place there is no row.
void ModuleTap::WatchInputs(PyObject* args, PyObject* kwargs, front_end::CallGraph<PythonGraph>* graph) {
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
    WatchInput(value, element, /*is_positional=*/true, graph);
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
    WatchInput(value, number, /*is_positional=*/false, graph);
  }
  if (!any_row) element = 0;
  for (const FoundTensor& found : inside) {
    const uint16_t number = !any_row && inside.size() == 1 ? kNoElement : element++;
    WatchInput(found.tensor(), number, /*is_positional=*/false, graph);
  }
  graph->BeginForward();
}

// A gradient that has not come when the step ends has a row if any gradient of the call has come. As in torch's full
// backward hooks, the row is that of zeros for a positional tensor beside an argument with a gradient, and of nan for
// an argument that is not a tensor.
void ModuleTap::WatchInput(PyObject* value, uint16_t element, bool is_positional,
                           front_end::CallGraph<PythonGraph>* graph) {
  graph->gradients().ExpectInput(element);
  if (!context_->reader.IsTensor(value)) return;
  const bool has_gradient = graph->AddInput(value, element);
  if (element == kNoElement || !(has_gradient || (is_positional && !NeedsGradient(value)))) return;
  const TensorView view = context_->reader.Read(value).view;
  if (view.dtype != DType::kOther) graph->gradients().LastInputHasZeros(ZerosLike(view));
}

void ModuleTap::After(PyObject* output) noexcept {
  if (running_.empty()) return;
  Call call = std::move(running_.back());
  running_.pop_back();
  Recorder* const recorder = context_->recorder;
  if (recorder == nullptr) return;
  recorder->NoteModule(index_, false, call.rows.micro_step());
  if (output == Py_None && HandledException() != call.handled) return;  // the module has raised
  CatchAndReport(*context_, "reading a module's output", [&] {
    const std::vector<FoundTensor> outputs = TensorsInResult(context_->reader, output);
    if (!call.recomputes) call.rows.EnqueueRows(outputs);
    call.rows.HangHooks(outputs);
    if (call.rows.wants_structure() && !call.recomputes && name_in_structure_)
      call.rows.DescribeCall(*name_in_structure_, KindOfResult(context_->reader, output), outputs);
  });
}

}  // namespace stepwatch::python
