// The hooks of one module while a plan watches it: one before its forward, one after it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/python/native/context.h"
#include "front_ends/python/native/python_graph.h"
#include "front_ends/python/native/returned_leaf.h"
#include "front_ends/shared/watched_call.h"

namespace stepwatch::python {

class ModuleTap {
 public:
  // `index`: in SiteIndex::modules.
  ModuleTap(std::shared_ptr<Context> context, int chunk, bool is_root, uint32_t index);
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
    front_end::WatchedCall<PythonGraph> rows;
    bool recomputes = false;        // what a checkpoint has discarded: the first run has the rows of activations
    const void* handled = nullptr;  // the exception that was handled when the call began
  };

  bool IsTraining(PyObject* module) const;
  bool NeedsGradient(PyObject* tensor) const;
  front_end::CallPosition NextCall(bool recomputes) noexcept;
  void WatchInputs(PyObject* args, PyObject* kwargs, front_end::CallGraph<PythonGraph>* graph);
  void WatchInput(PyObject* value, uint16_t element, bool is_positional, front_end::CallGraph<PythonGraph>* graph);

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

}  // namespace stepwatch::python
