#include "python/context.h"

#include <utility>

namespace stepwatch::python {
namespace {

// Below it a release of the GIL costs more than it gives to others.
constexpr int64_t kReleaseBytes = 64 * 1024;

}  // namespace

Context::Context(PyObject* torch, std::function<void(const Event&)> on_event)
    : reporter(std::move(on_event)), reader(torch) {
  is_grad_enabled_ = Attribute(torch, "is_grad_enabled");
  const Ref native = Attribute(torch, "_C");
  if (native) current_graph_task_id_ = Attribute(native.get(), "_current_graph_task_id");
}

bool Context::GradientsEnabled() const {
  const Ref enabled(PyObject_CallNoArgs(is_grad_enabled_.get()));
  return IsTrue(enabled);
}

bool Context::InBackward() const {
  if (!current_graph_task_id_) return false;
  const Ref id(PyObject_CallNoArgs(current_graph_task_id_.get()));
  const bool running = id && PyLong_AsLong(id.get()) != -1;
  PyErr_Clear();
  return running;
}

bool Context::Measure(Monitor& to, SiteKind kind, const Observation& at, PyObject* tensor, Record* record) {
  const SeenTensor seen = reader.Read(tensor);
  if (seen.problem != nullptr) reporter.Unmeasurable(kind, seen.problem);
  if (seen.view.numel * ElementSize(seen.view.dtype) < kReleaseBytes) return to.Measure(at, seen.view, record);
  PyThreadState* const state = PyEval_SaveThread();
  const bool measured = to.Measure(at, seen.view, record);
  PyEval_RestoreThread(state);
  return measured;
}

void Context::Observe(Monitor& to, SiteKind kind, const Observation& at, PyObject* tensor) {
  Record record;
  if (Measure(to, kind, at, tensor, &record)) to.Enqueue(record);
}

}  // namespace stepwatch::python
