// The tensors of Python, and the state that taps and hooks of one monitor share. Used with the GIL held, which also
// orders its threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "front_ends/python/native/late_engine.h"
#include "front_ends/python/native/measured_activations.h"
#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_hook.h"
#include "front_ends/python/native/tensor_reader.h"
#include "front_ends/shared/hook_context.h"
#include "front_ends/shared/wanted_sites.h"

namespace stepwatch::python {

using front_end::kNoSite;
using front_end::ModuleSites;

struct Context;

struct PythonTensors {
  using Context = python::Context;
  using Handle = Ref;
  using Borrowed = PyObject*;
  struct Mutex {  // the GIL
    void lock() const {}
    void unlock() const {}
  };

  // Missing gradients are reported on demand (Session::Latest) or at the end of the step: as in torch's full backward
  // hooks, an input without a gradient has zeros once another one has a gradient.
  static constexpr bool kReportsUnwatchedAtOnce = false;

  static bool IsNone(PyObject* gradient) { return gradient == Py_None; }
  static PyObject* Borrow(const Ref& sum) { return sum ? sum.ptr() : Py_None; }
  static Ref Detach(PyObject* gradient) { return CallMethod(gradient, "detach"); }
  static Ref Add(const Ref& sum, const Ref& part) { return part ? Ref(PyNumber_Add(sum.ptr(), part.ptr())) : Ref(); }
  static Ref Subtract(PyObject* gradient, const Ref& parts, bool are_several);
  static std::string Describe(const Context& context, PyObject* gradient);
  static std::string StillClockText(uint32_t passes);
};

using CallGradients = front_end::CallGradients<PythonTensors>;

struct Context : front_end::HookContext<PythonTensors> {
  explicit Context(PyObject* torch);

  // Returns false if there is nothing to enqueue.
  bool Measure(Recorder& to, SiteKind kind, const Observation& at, PyObject* tensor, Record* record);

  // The groups of sites to which this one belongs, as a set.
  GroupSet GroupOf(SiteId site) const { return GroupSet{1} << (site < groups.size() ? groups[site] : 0); }

  bool GradientsEnabled() const;
  // Micro-batches of a chunk that have begun in this step, by marks or the root's entries; 0: neither is available.
  uint32_t MicroBatchesBegun(size_t chunk) const;
  // True inside a backward pass: a forward in it recomputes what a checkpoint has discarded.
  bool InBackward() const;
  // The number of the next graph node made on this thread; 0 where torch does not provide it.
  uint64_t NextSequence() const;

  std::vector<uint8_t> groups;   // PlannedSite::group of the wanted sites; empty: no site has a group
  bool is_paused = false;        // a framework runs modules on memory without data: hooks ignore their calls
  bool repeats_closure = false;  // an update evaluates its closure again: passes have no rows of un-reduced gradients
  std::vector<std::unique_ptr<front_end::StepCounter>> roots;  // entries of each chunk's root module
  TensorReader reader;
  const Names names;
  const TensorHooks tensor_hooks;
  MeasuredActivations measured;  // in the running step
  LateEngine late{&reader, &reporter};

 private:
  bool MeasureView(Recorder& to, const Observation& at, const TensorView& view, Record* record) const;

  Ref is_grad_enabled_;
  Ref current_graph_task_id_;  // empty where torch has no such function
  Ref next_sequence_;          // likewise
};

// Runs `f` of Stepwatch inside a hook: an exception, or an error that Python has set, ends here and is reported once.
template <class F>
void CatchAndReport(Context& context, const char* where, const F& f) noexcept {
  front_end::CatchAndReport(context.reporter, where, f);
  if (PyErr_Occurred() == nullptr) return;
  ClearError();
  context.reporter.Caught(where, "Python raised an exception");
}

}  // namespace stepwatch::python
