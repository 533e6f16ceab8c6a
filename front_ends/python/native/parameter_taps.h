// Gradients, weights and optimizer state of the watched parameters, read around the optimizer's step.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "front_ends/python/native/context.h"

namespace stepwatch::python {

class ParameterTap : public std::enable_shared_from_this<ParameterTap> {
 public:
  // `parameter` is borrowed until `Detach`: a reference from here, which the garbage collector does not see, would
  // close a circle through its hooks. `main_grad`: the gradient is read from `parameter.main_grad` where there is one.
  ParameterTap(std::shared_ptr<Context> context, PyObject* parameter, bool main_grad);

  void Want(SiteKind kind, SiteId site) { sites_[static_cast<size_t>(kind)] = site; }
  void WantNothing() { sites_.fill(kNoSite); }
  SiteId site(SiteKind kind) const { return sites_[static_cast<size_t>(kind)]; }
  bool wanted() const;
  void set_each_micro_batch(bool each) { each_ = each; }
  PyObject* parameter() const { return parameter_; }
  // Takes everything off the parameter, which may then be freed.
  void Detach();

  // Its gradient has been accumulated once more: the hook on it, on an autograd thread.
  void OnAccumulated() noexcept;
  // The gradient of one backward pass is about to be accumulated. It is all there will be where nothing was accumulated
  // before; otherwise the parameter gets the hook above from now on, in time for this pass.
  void OnIncoming(PyObject* gradient) noexcept;
  // The whole gradient is about to be reduced to this rank's shard of it (FSDP), or waits for that: once a backward
  // pass, on an autograd thread.
  void OnReduction(PyObject* gradient) noexcept;
  // Whether OnIncoming may do (gradients are not set to None yet when a step begins): torch keeps calling into Python
  // for a parameter that has had the other hook once, in every backward pass, also when the hook is gone.
  bool ReadsIncoming() const;
  // Takes off the hook that OnIncoming has put on, if any.
  void TakeOffLateHook() noexcept;
  // At the entry of the optimizer's step: a step with fewer micro-batches than announced.
  void CatchUp(Recorder& recorder);
  // The gradient, or nothing.
  Ref Gradient() const;

 private:
  Recorder* RecorderOfUnreduced() const;
  bool EndsPass(uint32_t count) const;
  void ObserveUnreduced(Recorder& recorder, PyObject* gradient, uint32_t count);

  const std::shared_ptr<Context> context_;
  PyObject* parameter_;
  const bool main_grad_;
  std::array<SiteId, kSiteKindCount> sites_;
  bool each_ = false;
  bool is_sharded_ = false;
  front_end::StepCounter calls_;
  Ref late_hook_;  // torch's handle
};

// Defined with the bindings: the Python callable of OnAccumulated.
Ref MakeCallable(std::shared_ptr<ParameterTap> tap);

// Gathers tensors and hands them to the recorder in one go.
class TensorBatch {
 public:
  explicit TensorBatch(Context* context) : context_(context) {}
  void Add(SiteKind kind, SiteId site, Ref tensor);
  void Observe(Recorder& recorder) noexcept;

 private:
  Context* const context_;
  std::vector<Observation> at_;
  std::vector<TensorView> views_;
  std::vector<Ref> kept_;
};

// The parameters of one optimizer; with the first, those of none as well.
class ParameterGroup {
 public:
  explicit ParameterGroup(std::shared_ptr<Context> context) : context_(std::move(context)), batch_(context_.get()) {}

  void Add(std::shared_ptr<ParameterTap> tap) { taps_.push_back(std::move(tap)); }
  // `state`: optimizer.state, a mapping from parameter to a dict with exp_avg and exp_avg_sq; None is allowed. Returns
  // how many parameters have none of these although they are wanted.
  int BeforeUpdate(PyObject* state) noexcept;
  void AfterUpdate() noexcept;

 private:
  void ReadBefore(Recorder& recorder, ParameterTap& tap, PyObject* state, int* without_moments);

  const std::shared_ptr<Context> context_;
  TensorBatch batch_;
  std::vector<std::shared_ptr<ParameterTap>> taps_;
};

}  // namespace stepwatch::python
