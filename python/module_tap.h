// What hangs on one module while a plan wants it: a hook before its forward, one behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/call_gradients.h"
#include "python/context.h"
#include "python/tensors_in.h"

namespace stepwatch::python {

// What a tensor hook calls.
struct GradientHook {
  std::shared_ptr<CallGradients> gradients;
  uint16_t element;
  bool is_input;

  void Call(PyObject* gradient) const noexcept {
    if (is_input) {
      gradients->OnInput(element, gradient);
    } else {
      gradients->OnOutput(element, gradient);
    }
  }
};

class ModuleTap {
 public:
  // `key`: "0:fc", as in module_struct.json.
  ModuleTap(std::shared_ptr<Context> context, int chunk, std::string key, bool is_root);
  ~ModuleTap();
  ModuleTap(const ModuleTap&) = delete;
  ModuleTap& operator=(const ModuleTap&) = delete;

  ModuleSites& sites() { return sites_; }
  bool is_root() const { return is_root_; }
  int chunk() const { return chunk_; }

  // The forward pre-hook: None, or (args, kwargs) with aliases in the place of inputs whose gradient is watched.
  Ref Before(PyObject* module, PyObject* args, PyObject* kwargs) noexcept;
  // The forward hook; `output` is never replaced.
  void After(PyObject* output) noexcept;
  // Calls that never came to their end, by an exception.
  void ForgetCalls() noexcept;

 private:
  struct Alias {
    Ref tensor;
    Ref input;  // that it stands for
    long version;
  };
  struct Call {
    front_end::CallPosition at;
    bool recomputes = false;
    std::vector<Record> inputs;  // measured before forward, enqueued after it
    std::shared_ptr<CallGradients> gradients;
    std::vector<Alias> aliases;
    front_end::PortStructure structure;
  };

  bool IsTraining(PyObject* module) const;
  bool NeedsGradient(PyObject* tensor) const;
  bool IsLeaf(PyObject* tensor) const;
  void HangOn(PyObject* tensor, GradientHook hook) const;
  front_end::CallPosition NextCall(bool recomputes) noexcept;
  void ReadInputs(Monitor& monitor, PyObject* args, PyObject* kwargs, Call* call);
  Ref WatchInputs(PyObject* module, PyObject* args, PyObject* kwargs, Call* call);
  Ref AliasOf(PyObject* tensor, bool writes_input, uint16_t element, Call* call);
  void FinishInputs(Call* call);
  void ReadOutputs(Monitor& monitor, const std::vector<FoundTensor>& outputs, const Call& call);
  void WatchOutputs(const std::vector<FoundTensor>& outputs, Call* call);
  void DescribeCall(PyObject* output, const std::vector<FoundTensor>& outputs, Call* call);

  const std::shared_ptr<Context> context_;
  const int chunk_;
  const std::string key_;
  const bool is_root_;
  ModuleSites sites_;
  front_end::CallCounter calls_;
  front_end::CallCounter recomputed_calls_;
  bool writes_input_ = false;  // seen to write into its input
  std::vector<Call> running_;  // the innermost call last
};

// Defined with the bindings: the Python callable of a hook.
Ref MakeCallable(GradientHook hook);

}  // namespace stepwatch::python
