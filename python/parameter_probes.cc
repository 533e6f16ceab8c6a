#include "python/parameter_probes.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {

ParameterProbe::ParameterProbe(std::shared_ptr<Context> context, PyObject* parameter, bool main_grad)
    : context_(std::move(context)), parameter_(Ref::Borrow(parameter)), main_grad_(main_grad) {
  WantNothing();
}

bool ParameterProbe::wanted() const {
  return std::any_of(sites_.begin(), sites_.end(), [](SiteId site) { return site != kNoSite; });
}

Ref ParameterProbe::Gradient() const {
  Ref gradient;
  if (main_grad_) gradient = Attribute(parameter_.get(), "main_grad");
  if (!gradient || gradient.get() == Py_None) gradient = Attribute(parameter_.get(), "grad");
  return gradient && gradient.get() != Py_None ? gradient : Ref();
}

void ParameterProbe::OnAccumulated() noexcept {
  Guarded(*context_, "the hook of an un-reduced gradient", [this] {
    Monitor* const monitor = context_->Collecting();
    if (monitor == nullptr || site(SiteKind::kGradUnreduced) == kNoSite) return;
    const uint32_t count = calls_.Add(context_->step);
    if (!each_ && count != static_cast<uint32_t>(context_->grad_acc_steps)) return;
    if (const Ref gradient = Gradient()) ObserveUnreduced(*monitor, gradient.get(), count);
  });
}

void ParameterProbe::CatchUp(Monitor& monitor) {
  const uint32_t count = calls_.Count(context_->step);
  if (site(SiteKind::kGradUnreduced) == kNoSite || count == 0) return;
  if (each_ || count >= static_cast<uint32_t>(context_->grad_acc_steps)) return;
  if (const Ref gradient = Gradient()) ObserveUnreduced(monitor, gradient.get(), count);
}

void ParameterProbe::ObserveUnreduced(Monitor& monitor, PyObject* gradient, uint32_t count) {
  const Observation at{site(SiteKind::kGradUnreduced), static_cast<int32_t>(count) - 1};
  context_->Observe(monitor, SiteKind::kGradUnreduced, at, gradient);
}

void TensorBatch::Add(SiteKind kind, SiteId site, Ref tensor) {
  const SeenTensor seen = context_->reader.Read(tensor.get());
  if (seen.problem != nullptr) context_->reporter.Unmeasurable(kind, seen.problem);
  at_.push_back({site});
  views_.push_back(seen.view);
  kept_.push_back(std::move(tensor));
}

void TensorBatch::Observe(Monitor& monitor) noexcept {
  if (at_.empty()) return;
  PyThreadState* const state = PyEval_SaveThread();
  monitor.ObserveBatch(at_.data(), views_.data(), at_.size());
  PyEval_RestoreThread(state);
  at_.clear();
  views_.clear();
  kept_.clear();
}

namespace {

// A tensor of the optimizer's state of one parameter, or nothing.
Ref StateOf(PyObject* state, const char* name) {
  Ref tensor(PyMapping_HasKeyString(state, name) != 0 ? PyMapping_GetItemString(state, name) : nullptr);
  PyErr_Clear();
  return tensor;
}

bool WantsMoments(const ParameterProbe& probe) {
  return probe.site(SiteKind::kExpAvg) != kNoSite || probe.site(SiteKind::kExpAvgSq) != kNoSite ||
         probe.site(SiteKind::kMgDirection) != kNoSite;
}

}  // namespace

int ParameterGroup::BeforeUpdate(PyObject* state) noexcept {
  Monitor* const monitor = context_->Collecting();
  int without_moments = 0;
  if (monitor == nullptr) return 0;
  Guarded(*context_, "reading parameters before the update", [&] {
    for (const auto& probe : probes_)
      if (probe->wanted()) ReadBefore(*monitor, *probe, state, &without_moments);
  });
  batch_.Observe(*monitor);
  return without_moments;
}

void ParameterGroup::ReadBefore(Monitor& monitor, ParameterProbe& probe, PyObject* state, int* without_moments) {
  probe.CatchUp(monitor);
  const Ref gradient = probe.Gradient();
  const SiteId reduced = probe.site(SiteKind::kGradReduced);
  if (reduced != kNoSite && gradient) batch_.Add(SiteKind::kGradReduced, reduced, gradient);
  if (WantsMoments(probe)) {
    // Not by subscript: optimizers keep a dict that would grow an entry.
    Ref own(PyObject_CallMethod(state, "get", "O", probe.parameter()));
    PyErr_Clear();
    const bool is_there = own && own.get() != Py_None;
    const Ref exp_avg = is_there ? StateOf(own.get(), "exp_avg") : Ref();
    const Ref exp_avg_sq = is_there ? StateOf(own.get(), "exp_avg_sq") : Ref();
    if (!exp_avg && !exp_avg_sq) ++*without_moments;
    for (const auto& [kind, tensor] : {std::pair{SiteKind::kExpAvg, &exp_avg}, {SiteKind::kExpAvgSq, &exp_avg_sq}})
      if (probe.site(kind) != kNoSite && *tensor && context_->reader.IsTensor(tensor->get()))
        batch_.Add(kind, probe.site(kind), *tensor);
    const SiteId direction = probe.site(SiteKind::kMgDirection);
    if (direction != kNoSite && gradient && exp_avg)
      monitor.ObserveAgreement({direction}, context_->reader.Read(gradient.get()).view,
                               context_->reader.Read(exp_avg.get()).view);
  }
  const SiteId origin = probe.site(SiteKind::kParamOrigin);
  if (origin != kNoSite) batch_.Add(SiteKind::kParamOrigin, origin, Ref::Borrow(probe.parameter()));
}

void ParameterGroup::AfterUpdate() noexcept {
  Monitor* const monitor = context_->Collecting();
  if (monitor == nullptr) return;
  Guarded(*context_, "reading parameters after the update", [&] {
    for (const auto& probe : probes_)
      if (const SiteId site = probe->site(SiteKind::kParamUpdated); site != kNoSite)
        batch_.Add(SiteKind::kParamUpdated, site, Ref::Borrow(probe->parameter()));
  });
  batch_.Observe(*monitor);
}

void ParameterGroup::BeforeEndOfStep() noexcept {
  Monitor* const monitor = context_->Collecting();
  if (monitor == nullptr) return;
  Guarded(*context_, "reading gradients at the end of the step", [&] {
    for (const auto& probe : probes_) probe->CatchUp(*monitor);
  });
}

}  // namespace stepwatch::python
