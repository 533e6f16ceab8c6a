// The hooks of one module while a plan watches it: one before its forward, one after it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/python/native/call_gradients.h"
#include "front_ends/python/native/context.h"
#include "front_ends/python/native/input_consumers.h"
#include "front_ends/python/native/returned_leaf.h"
#include "front_ends/python/native/tensors_in.h"

namespace stepwatch::python {

// The callback of a hook on a node of a call that uses inputs or outputs of the call.
struct ConsumerHook {
  std::shared_ptr<CallGradients> gradients;
  std::vector<Consumer::Taken> taken;
  bool are_inputs;

  // `given`: a tuple of the gradients that the node has computed.
  void Call(PyObject* given) const noexcept;
};

class ModuleTap {
 public:
  // `index`: in SiteIndex::modules.
  ModuleTap(std::shared_ptr<Context> context, int chunk, bool is_root, uint32_t index);
  ~ModuleTap();
  ModuleTap(const ModuleTap&) = delete;
  ModuleTap& operator=(const ModuleTap&) = delete;

  ModuleSites& sites() { return sites_; }
  // Wants no site until `sites` is filled.
  void WantNothing();
  // From now on its hooks do nothing.
  void Detach();
  // Its name in module_struct.json; unset: it is left out of the file.
  void set_name_in_structure(std::optional<std::string> name) { name_in_structure_ = std::move(name); }
  // True if it was called in training since then.
  bool was_called() const { return was_called_; }
  bool is_root() const { return is_root_; }
  int chunk() const { return chunk_; }

  // The forward pre-hook, and the forward hook, which is called even if the module raises. Neither replaces arguments
  // or output.
  void Before(PyObject* module, PyObject* args, PyObject* kwargs) noexcept;
  void After(PyObject* output) noexcept;
  // Discards calls that never ended, and other state of the step that is over.
  void EndStep() noexcept;

 private:
  struct Call {
    front_end::CallPosition at;
    bool recomputes = false;
    std::vector<Record> inputs;  // measured before forward, enqueued after it
    std::shared_ptr<CallGradients> gradients;
    std::vector<GradientEdge> edges;  // of inputs with a watched gradient
    long first_sequence = -1;         // of the nodes that the call makes
    const void* handled = nullptr;    // the exception that was handled when the call began
    PortStructure structure;
  };

  bool IsTraining(PyObject* module) const;
  bool NeedsGradient(PyObject* tensor) const;
  void HangOn(PyObject* tensor, GradientPlace place) const;
  front_end::CallPosition NextCall(bool recomputes) noexcept;
  void ReadInputs(Recorder& recorder, PyObject* args, PyObject* kwargs, Call* call);
  void WatchInputs(PyObject* args, PyObject* kwargs, Call* call);
  void WatchInput(PyObject* tensor, uint16_t element, Call* call);
  void WatchBase(PyObject* tensor, uint16_t element, Call* call);
  std::vector<GradientEdge> EdgesOf(const std::vector<FoundTensor>& outputs) const;
  void DiscardCalls() noexcept;
  void FinishReturned(PyObject* output, const GradientEdge& edge, bool is_leaf, Call* call);
  void FinishInputs(const std::vector<FoundTensor>& outputs, const std::vector<GradientEdge>& of_outputs, Call* call);
  void ReadOutputs(Recorder& recorder, const std::vector<FoundTensor>& outputs, const Call& call);
  void WatchOutputs(const std::vector<FoundTensor>& outputs, const std::vector<GradientEdge>& edges, Call* call);
  void WatchLeaf(PyObject* output, uint16_t element, Call* call);
  void WatchUsedOutputs(const std::vector<GradientEdge>& edges, Call* call);
  void HangOn(Consumer* consumer, bool are_inputs, Call* call) const;
  void DescribeCall(PyObject* output, const std::vector<FoundTensor>& outputs, Call* call);

  const std::shared_ptr<Context> context_;
  const int chunk_;
  const bool is_root_;
  const uint32_t index_;
  std::optional<std::string> name_in_structure_;
  bool was_called_ = false;
  bool is_detached_ = false;
  ModuleSites sites_;
  front_end::CallCounter calls_;
  front_end::CallCounter recomputed_calls_;
  std::vector<Call> running_;  // the innermost call last
  ReturnedLeaves returned_;
};

// Defined with the bindings: the Python callable of a hook.
Ref MakeCallable(GradientPlace place);
Ref MakeCallable(ConsumerHook hook);

}  // namespace stepwatch::python
