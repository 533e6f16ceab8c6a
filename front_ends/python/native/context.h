// State shared by the hooks of one monitor. Used with the GIL held, which also orders its threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "front_ends/python/native/late_engine.h"
#include "front_ends/python/native/measured_activations.h"
#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_hook.h"
#include "front_ends/python/native/tensor_reader.h"
#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/reporter.h"
#include "front_ends/shared/structure.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/event.h"
#include "stepwatch/recorder.h"

namespace stepwatch::front_end {
template <class Tensors>
class CallGradients;
}

namespace stepwatch::python {

using front_end::kNoSite;
using front_end::ModuleSites;

struct PythonTensors;
using AnsweredCall = front_end::CallGradients<PythonTensors>;

struct Context {
  explicit Context(PyObject* torch);

  // The recorder if this step is collected, else null.
  Recorder* Collecting() const noexcept { return recorder != nullptr && recorder->collecting() ? recorder : nullptr; }
  void Observe(Recorder& to, SiteKind kind, const Observation& at, PyObject* tensor);
  // Returns false if there is nothing to enqueue.
  bool Measure(Recorder& to, SiteKind kind, const Observation& at, PyObject* tensor, Record* record);

  // The groups of sites to which this one belongs, as a set.
  GroupSet GroupOf(SiteId site) const { return GroupSet{1} << (site < groups.size() ? groups[site] : 0); }

  bool GradientsEnabled() const;
  // Micro-batches of a chunk that have begun in this step, by marks or the root's entries; 0: neither is available.
  uint32_t MicroBatchesBegun(size_t chunk) const;
  // True inside a backward pass: a forward in it recomputes what a checkpoint has discarded.
  bool InBackward() const;
  // The number of the next graph node made on this thread; -1 where torch does not provide it.
  long NextSequence() const;

  // The call has its first gradient: keeps it until the end of the step.
  void AddAnswered(std::shared_ptr<AnsweredCall> call);

  // Reports once that no step has ended in so many backward passes, and the remedy.
  void ReportStillClock(uint32_t passes) noexcept;

  Recorder* recorder = nullptr;  // null once closed
  uint64_t generation = 1;       // grows whenever the wanted sites change: site ids hold for one generation only
  std::vector<uint8_t> groups;   // PlannedSite::group of the wanted sites; empty: no site has a group
  bool is_paused = false;        // a framework runs modules on memory without data: hooks ignore their calls
  uint32_t step = 0;             // changes at every end of a step
  int grad_acc_steps = 1;
  front_end::StepCounter marks;                                // begin_micro_batch
  std::vector<std::unique_ptr<front_end::StepCounter>> roots;  // entries of each chunk's root module
  std::shared_ptr<front_end::StructureRecorder> structure;     // while print_struct wants one
  std::vector<std::shared_ptr<AnsweredCall>> answered;         // calls of this step with a gradient
  front_end::Reporter reporter;
  TensorReader reader;
  const Names names;
  const TensorHooks tensor_hooks;
  MeasuredActivations measured;  // in the running step
  LateEngine late{&reader, &reporter};

 private:
  bool MeasureView(Recorder& to, const Observation& at, const TensorView& view, Record* record) const;

  std::atomic<bool> has_reported_still_clock_{false};
  Ref is_grad_enabled_;
  Ref current_graph_task_id_;  // empty where torch has no such function
  Ref next_sequence_;          // likewise
};

// Runs `f` of Stepwatch inside a hook: an exception, or an error that Python has set, ends here and is reported once.
template <class F>
void Guarded(Context& context, const char* where, const F& f) noexcept {
  front_end::Guarded(context.reporter, where, f);
  if (PyErr_Occurred() == nullptr) return;
  ClearError();
  context.reporter.Caught(where, "Python raised an exception");
}

}  // namespace stepwatch::python
