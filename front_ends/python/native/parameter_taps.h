// Gradients, weights and optimizer state of the watched parameters, read around the optimizer's step.
#pragma once

#include <memory>
#include <vector>

#include "front_ends/python/native/context.h"
#include "front_ends/shared/parameter_rows.h"
#include "front_ends/shared/tensor_batch.h"

namespace stepwatch::python {

class ParameterTap : public std::enable_shared_from_this<ParameterTap> {
 public:
  // `parameter` is borrowed until `Detach`: an owned reference, which the garbage collector cannot see, would close a
  // cycle through its hooks. `main_grad`: the gradient is read from `parameter.main_grad` if it exists.
  ParameterTap(std::shared_ptr<Context> context, PyObject* parameter, bool main_grad);

  void Want(SiteKind kind, SiteId site, bool each_micro_batch);
  void WantNothing();
  front_end::ParameterRows& rows() { return rows_; }
  PyObject* parameter() const { return parameter_; }
  // The result of a kind since its sites were set: a row, or no row because the tensor has no element on this rank.
  void Saw(SiteKind kind) { seen_ |= 1u << static_cast<int>(kind); }
  void SawEmpty(SiteKind kind) { empty_ |= 1u << static_cast<int>(kind); }
  bool saw(SiteKind kind) const { return (seen_ >> static_cast<int>(kind) & 1u) != 0; }
  bool saw_empty(SiteKind kind) const { return (empty_ >> static_cast<int>(kind) & 1u) != 0; }
  // Removes all hooks from the parameter, which may then be freed.
  void Detach();

  // Its gradient was accumulated once more: called by its hook, on an autograd thread.
  void OnAccumulated() noexcept;
  // The gradient of one backward pass is about to be accumulated. It is the whole gradient if no gradient was
  // accumulated before; otherwise the parameter gets the hook above from now on, in time for this pass.
  void OnIncoming(PyObject* gradient) noexcept;
  // The whole gradient is about to be reduced to this rank's shard (FSDP), or waits for that: once a backward pass, on
  // an autograd thread. `is_last`: nothing more is added to it in this step; it may have been observed already.
  void OnReduction(PyObject* gradient, bool is_last) noexcept;
  // True if OnIncoming suffices (when a step begins, gradients are not set to None yet): once a parameter has had the
  // other hook, torch calls into Python for it in every backward pass, even after the hook is removed.
  bool ReadsIncoming() const;
  // Removes the hook that OnIncoming has added, if any.
  void TakeOffLateHook() noexcept;
  // The gradient of an update is ready, and the last pass before it has come.
  void BeginGradient(Recorder& recorder);
  // At the end of a step without an update: the last pass has the row.
  void EndStep(Recorder& recorder);
  // The gradient, or an empty reference.
  Ref Gradient() const;

 private:
  Recorder* RecorderOfUnreduced() const;
  void MoveToFront(const Ref& handle) const;
  void SeeUnreduced(Recorder& recorder, PyObject* gradient, uint32_t pass);

  const std::shared_ptr<Context> context_;
  PyObject* parameter_;
  const bool main_grad_;
  front_end::ParameterRows rows_;
  uint32_t seen_ = 0;   // a bit per SiteKind
  uint32_t empty_ = 0;  // likewise
  Ref late_hook_;       // torch's handle
};

// Defined with the bindings: the Python callable of OnAccumulated.
Ref MakeCallable(std::shared_ptr<ParameterTap> tap);

// Gathers tensors of parameters: those that the recorder measures, and those that torch measures on their device.
class ParameterBatch {
 public:
  explicit ParameterBatch(Context* context) : context_(context) {}
  void Add(SiteKind kind, ParameterTap& tap, Ref tensor);
  void Observe(Recorder& recorder) noexcept;

 private:
  void ObserveLate(Recorder& recorder, std::vector<LateItem> items) noexcept;

  Context* const context_;
  front_end::TensorBatch<Ref> now_;
  std::vector<LateItem> late_;
  std::vector<Ref> kept_late_;  // their tensors
};

// The framework's tensors of parameters: mappings from a parameter, None if it has no such tensor. Borrowed for one
// call.
struct ParameterSources {
  PyObject* state = nullptr;    // to a mapping with exp_avg and exp_avg_sq; None: no moments
  PyObject* reduced = nullptr;  // to the reduced gradient; None for all: the parameter's own
  PyObject* weights = nullptr;  // to the weight; None for all: the parameter itself
  bool is_reduced = true;       // false: unknown whether gradients are reduced; they have no rows
  bool continues = false;       // the update was read already, without its reduced gradients
};

// The parameters of one optimizer; the first one includes those without an optimizer.
class ParameterGroup {
 public:
  explicit ParameterGroup(std::shared_ptr<Context> context) : context_(std::move(context)), batch_(context_.get()) {}

  void Add(std::shared_ptr<ParameterTap> tap) { taps_.push_back(std::move(tap)); }
  // Returns the number of parameters whose moments are wanted but missing.
  int BeforeUpdate(const ParameterSources& sources) noexcept;
  void AfterUpdate(const ParameterSources& sources) noexcept;
  void AbandonUpdate() noexcept;

 private:
  void ReadBefore(Recorder& recorder, ParameterTap& tap, const ParameterSources& sources, int* without_moments);
  bool ReadMoments(Recorder& recorder, ParameterTap& tap, PyObject* state, const Ref& gradient);
  Ref From(PyObject* source, PyObject* parameter) const;
  void AddWeight(SiteKind kind, ParameterTap& tap, const ParameterSources& sources);
  bool ObserveDirection(Recorder& recorder, const Observation& at, const Ref& gradient, const Ref& momentum);

  const std::shared_ptr<Context> context_;
  ParameterBatch batch_;
  std::vector<std::shared_ptr<ParameterTap>> taps_;
};

}  // namespace stepwatch::python
