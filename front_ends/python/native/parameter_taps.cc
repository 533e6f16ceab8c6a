#include "front_ends/python/native/parameter_taps.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {

ParameterTap::ParameterTap(std::shared_ptr<Context> context, PyObject* parameter, bool main_grad)
    : context_(std::move(context)), parameter_(parameter), main_grad_(main_grad) {
  WantNothing();
}

void ParameterTap::Detach() {
  WantNothing();
  late_hook_ = Ref();
  parameter_ = nullptr;
}

bool ParameterTap::wanted() const {
  return std::any_of(sites_.begin(), sites_.end(), [](SiteId site) { return site != kNoSite; });
}

Ref ParameterTap::Gradient() const {
  if (parameter_ == nullptr) return {};
  Ref gradient;
  if (main_grad_) gradient = Attribute(parameter_, context_->names.main_grad);
  if (!gradient || gradient.ptr() == Py_None) gradient = Attribute(parameter_, context_->names.grad);
  return gradient && gradient.ptr() != Py_None ? gradient : Ref();
}

Recorder* ParameterTap::RecorderOfUnreduced() const {
  return site(SiteKind::kGradUnreduced) == kNoSite ? nullptr : context_->Collecting();
}

bool ParameterTap::ReadsIncoming() const {
  return !each_ && context_->grad_acc_steps == 1 && !late_hook_;
}

void ParameterTap::OnIncoming(PyObject* gradient) noexcept {
  Guarded(*context_, "the hook of a gradient that comes in", [&] {
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr || late_hook_) return;
    if (!each_ && context_->grad_acc_steps == 1 && !Gradient()) {
      ObserveUnreduced(*recorder, gradient, calls_.Add(context_->step));
      return;
    }
    const Ref hook = MakeCallable(shared_from_this());
    if (hook) late_hook_ = CallMethod(parameter_, context_->names.register_post_accumulate, hook.ptr());
  });
}

void ParameterTap::TakeOffLateHook() noexcept {
  if (!late_hook_) return;
  (void)CallMethod(late_hook_.ptr(), "remove");
  late_hook_ = Ref();
}

void ParameterTap::OnAccumulated() noexcept {
  Guarded(*context_, "the hook of an un-reduced gradient", [this] {
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr) return;
    const uint32_t count = calls_.Add(context_->step);
    if (!EndsPass(count)) return;
    if (const Ref gradient = Gradient()) ObserveUnreduced(*recorder, gradient.ptr(), count);
  });
}

void ParameterTap::OnReduction(PyObject* gradient) noexcept {
  Guarded(*context_, "a gradient that is about to be reduced", [&] {
    is_sharded_ = true;
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr) return;
    const uint32_t count = calls_.Add(context_->step);
    if (EndsPass(count)) ObserveUnreduced(*recorder, gradient, count);
  });
}

void ParameterTap::CatchUp(Recorder& recorder) {
  if (is_sharded_) return;  // what is left in the parameter is reduced
  const uint32_t count = calls_.Count(context_->step);
  if (site(SiteKind::kGradUnreduced) == kNoSite || count == 0) return;
  if (each_ || count >= static_cast<uint32_t>(context_->grad_acc_steps)) return;
  if (const Ref gradient = Gradient()) ObserveUnreduced(recorder, gradient.ptr(), count);
}

// A step may have more backward passes than it was said to have micro-batches, as when another network's loss flows
// through this one: the last that is complete counts.
bool ParameterTap::EndsPass(uint32_t count) const {
  return each_ || count % static_cast<uint32_t>(context_->grad_acc_steps) == 0;
}

void ParameterTap::ObserveUnreduced(Recorder& recorder, PyObject* gradient, uint32_t count) {
  const uint32_t micro_step = each_ ? count - 1 : (count - 1) % static_cast<uint32_t>(context_->grad_acc_steps);
  const Observation at{site(SiteKind::kGradUnreduced), static_cast<int32_t>(micro_step)};
  context_->Observe(recorder, SiteKind::kGradUnreduced, at, gradient);
}

void TensorBatch::Add(SiteKind kind, SiteId site, Ref tensor) {
  const SeenTensor seen = context_->reader.Read(tensor.ptr());
  if (seen.problem != nullptr) {
    context_->reporter.Unmeasurable(kind, seen.problem);
  } else if (seen.view.numel == 0) {
    return;  // a parameter of which this rank has no part
  }
  at_.push_back({site});
  views_.push_back(seen.view);
  kept_.push_back(std::move(tensor));
}

void TensorBatch::Observe(Recorder& recorder) noexcept {
  if (at_.empty()) return;
  // Taken out first: another thread may step while this one measures without the GIL.
  const std::vector<Observation> at = std::move(at_);
  const std::vector<TensorView> views = std::move(views_);
  const std::vector<Ref> kept = std::move(kept_);
  at_.clear();
  views_.clear();
  kept_.clear();
  const nanobind::gil_scoped_release released;
  recorder.ObserveBatch(at.data(), views.data(), at.size());
}

namespace {

// A tensor of the optimizer's state of one parameter, or nothing.
Ref StateOf(PyObject* state, const char* name) {
  Ref tensor(PyMapping_GetItemString(state, name));
  ClearError();
  return tensor;
}

bool WantsMoments(const ParameterTap& tap) {
  return tap.site(SiteKind::kExpAvg) != kNoSite || tap.site(SiteKind::kExpAvgSq) != kNoSite ||
         tap.site(SiteKind::kMgDirection) != kNoSite;
}

}  // namespace

int ParameterGroup::BeforeUpdate(PyObject* state) noexcept {
  Recorder* const recorder = context_->Collecting();
  int without_moments = 0;
  if (recorder == nullptr) return 0;
  Guarded(*context_, "reading parameters before the update", [&] {
    for (const auto& tap : taps_)
      if (tap->wanted()) ReadBefore(*recorder, *tap, state, &without_moments);
  });
  batch_.Observe(*recorder);
  return without_moments;
}

void ParameterGroup::ReadBefore(Recorder& recorder, ParameterTap& tap, PyObject* state, int* without_moments) {
  tap.CatchUp(recorder);
  const SiteId reduced = tap.site(SiteKind::kGradReduced);
  const bool wants_gradient = reduced != kNoSite || tap.site(SiteKind::kMgDirection) != kNoSite;
  const Ref gradient = wants_gradient ? tap.Gradient() : Ref();
  if (reduced != kNoSite && gradient) batch_.Add(SiteKind::kGradReduced, reduced, gradient);
  if (WantsMoments(tap)) {
    // A subscript would add an entry: optimizers keep a defaultdict.
    const Ref own = CallMethod(state, context_->names.get, tap.parameter());
    const bool is_there = own && own.ptr() != Py_None;
    const Ref exp_avg = is_there ? StateOf(own.ptr(), "exp_avg") : Ref();
    const Ref exp_avg_sq = is_there ? StateOf(own.ptr(), "exp_avg_sq") : Ref();
    if (!exp_avg && !exp_avg_sq) ++*without_moments;
    for (const auto& [kind, tensor] : {std::pair{SiteKind::kExpAvg, &exp_avg}, {SiteKind::kExpAvgSq, &exp_avg_sq}})
      if (tap.site(kind) != kNoSite && *tensor && context_->reader.IsTensor(tensor->ptr()))
        batch_.Add(kind, tap.site(kind), *tensor);
    const SiteId direction = tap.site(SiteKind::kMgDirection);
    if (direction != kNoSite && gradient && exp_avg) {
      const TensorView view = context_->reader.Read(gradient.ptr()).view;
      if (view.numel > 0) recorder.ObserveAgreement({direction}, view, context_->reader.Read(exp_avg.ptr()).view);
    }
  }
  const SiteId origin = tap.site(SiteKind::kParamOrigin);
  if (origin != kNoSite) batch_.Add(SiteKind::kParamOrigin, origin, Ref::Borrow(tap.parameter()));
}

void ParameterGroup::AfterUpdate() noexcept {
  Recorder* const recorder = context_->Collecting();
  if (recorder == nullptr) return;
  Guarded(*context_, "reading parameters after the update", [&] {
    for (const auto& tap : taps_)
      if (const SiteId site = tap->site(SiteKind::kParamUpdated); site != kNoSite)
        batch_.Add(SiteKind::kParamUpdated, site, Ref::Borrow(tap->parameter()));
  });
  batch_.Observe(*recorder);
}

}  // namespace stepwatch::python
