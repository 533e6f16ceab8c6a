#include "front_ends/python/native/context.h"

#include <string>
#include <utility>

namespace stepwatch::python {
namespace {

// Below this size releasing the GIL costs more than other threads gain.
constexpr int64_t kReleaseBytes = 64 * 1024;

}  // namespace

// Autograd passes a single gradient on unchanged, in the same memory, and several as their sum; comparing sums would
// wait for a device.
Ref PythonTensors::Subtract(PyObject* gradient, const Ref& parts, bool are_several) {
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

std::string PythonTensors::Describe(const Context& context, PyObject* gradient) {
  return context.reader.Describe(gradient);
}

std::string PythonTensors::StillClockText(uint32_t passes) {
  return "no step has ended for " + std::to_string(passes) +
         " backward passes: the step of the attached optimizer is not called; attach the optimizer whose step is "
         "called, with attach(model, optimizer); grad_acc_steps is the number of backward passes of a step";
}

Context::Context(PyObject* torch) : reader(torch), tensor_hooks(torch) {
  is_grad_enabled_ = Attribute(torch, "is_grad_enabled");
  const Ref native = Attribute(torch, "_C");
  if (native) current_graph_task_id_ = Attribute(native.ptr(), "_current_graph_task_id");
  const Ref autograd = Attribute(torch, "autograd");
  if (autograd) next_sequence_ = Attribute(autograd.ptr(), "_get_sequence_nr");
}

bool Context::GradientsEnabled() const {
  const Ref enabled(PyObject_CallNoArgs(is_grad_enabled_.ptr()));
  return IsTrue(enabled);
}

uint32_t Context::MicroBatchesBegun(size_t chunk) const {
  const uint32_t marked = marks.Count(step);
  return marked > 0 ? marked : roots[chunk]->Count(step);
}

bool Context::InBackward() const {
  if (!current_graph_task_id_) return false;
  const Ref id(PyObject_CallNoArgs(current_graph_task_id_.ptr()));
  const bool running = id && PyLong_AsLong(id.ptr()) != -1;
  ClearError();
  return running;
}

uint64_t Context::NextSequence() const {
  if (!next_sequence_) return 0;
  const Ref number(PyObject_CallNoArgs(next_sequence_.ptr()));
  const uint64_t value = number ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (PyErr_Occurred() == nullptr) return value;
  ClearError();
  return 0;
}

bool Context::MeasureView(Recorder& to, const Observation& at, const TensorView& view, Record* record) const {
  if (view.numel * ElementSize(view.dtype) < kReleaseBytes) return to.Measure(at, view, record);
  const nanobind::gil_scoped_release released;
  return to.Measure(at, view, record);
}

bool Context::Measure(Recorder& to, SiteKind kind, const Observation& at, PyObject* tensor, Record* record) {
  if (!to.collects(GroupOf(at.site))) return false;
  const SeenTensor seen = reader.Read(tensor);
  if (seen.problem != nullptr) {
    if (const Ref values = reader.SparseValues(tensor)) return Measure(to, kind, at, values.ptr(), record);
    reporter.Unmeasurable(kind, seen.problem);
  }
  if (late.Takes(to, seen.view)) {
    LateItem item{kind, at, tensor, seen.view, {}, false};
    late.Measure(to, groups, &item, 1);
    *record = item.record;
    return item.is_recorded;
  }
  // Never a gradient: collectives write into gradients without increasing their version.
  if (kind != SiteKind::kActv || !MeasuredActivations::IsWorthwhile(seen.view))
    return MeasureView(to, at, seen.view, record);
  const MeasuredActivations::Contents contents{seen.view, VersionOf(names, tensor)};
  // Sites of another group may have other statistics.
  if (const Record* same = measured.Find(reader, contents);
      same != nullptr && GroupOf(same->site) == GroupOf(at.site)) {
    *record = *same;
    record->site = at.site;
    record->micro_step = at.micro_step;
    record->element = at.element;
    record->call = at.call;
    return true;
  }
  if (!MeasureView(to, at, seen.view, record)) return false;
  measured.Add(tensor, contents, *record);
  return true;
}

}  // namespace stepwatch::python
