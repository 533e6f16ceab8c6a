#include "front_ends/python/native/parameter_taps.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {

ParameterTap::ParameterTap(std::shared_ptr<Context> context, PyObject* parameter, bool main_grad)
    : context_(std::move(context)), parameter_(parameter), main_grad_(main_grad) {}

void ParameterTap::Want(SiteKind kind, SiteId site, bool each_micro_batch) {
  rows_.Want(context_->recorder, kind, site, each_micro_batch);
}

void ParameterTap::WantNothing() {
  rows_.WantNothing(context_->recorder);
  seen_ = empty_ = 0;
}

void ParameterTap::Detach() {
  WantNothing();
  late_hook_ = Ref();
  parameter_ = nullptr;
}

Ref ParameterTap::Gradient() const {
  if (parameter_ == nullptr) return {};
  Ref gradient;
  if (main_grad_) gradient = Attribute(parameter_, context_->names.main_grad);
  if (!gradient || gradient.ptr() == Py_None) gradient = Attribute(parameter_, context_->names.grad);
  return gradient && gradient.ptr() != Py_None ? gradient : Ref();
}

// Passes count in collected steps alone: between those the hooks may be off.
Recorder* ParameterTap::RecorderOfUnreduced() const {
  const bool is_off = context_->is_paused || context_->repeats_closure || !rows_.unreduced.wanted();
  return is_off ? nullptr : context_->Collecting();
}

bool ParameterTap::ReadsIncoming() const {
  return !rows_.unreduced.each_micro_batch() && context_->grad_acc_steps == 1 && !late_hook_;
}

void ParameterTap::OnIncoming(PyObject* gradient) noexcept {
  CatchAndReport(*context_, "the hook of an incoming gradient", [&] {
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr || late_hook_) return;
    if (!rows_.unreduced.each_micro_batch() && context_->grad_acc_steps == 1 && !Gradient()) {
      SeeUnreduced(*recorder, gradient, rows_.unreduced.CountPass(*context_));
      return;
    }
    const Ref hook = MakeCallable(shared_from_this());
    if (hook) late_hook_ = CallMethod(parameter_, context_->names.register_post_accumulate, hook.ptr());
    if (late_hook_) MoveToFront(late_hook_);
  });
}

// Runs before other hooks, which may scale the gradient, or update by it and free it.
void ParameterTap::MoveToFront(const Ref& handle) const {
  const Ref hooks = Attribute(parameter_, context_->names.post_accumulate_hooks);
  const Ref key = Attribute(handle.ptr(), context_->names.id);
  if (!hooks || !key) return;
  // Torch uses the order of insertion, which `move_to_end` does not change.
  const Ref keys(PyDict_Check(hooks.ptr()) ? PyDict_Keys(hooks.ptr()) : nullptr);
  for (Py_ssize_t i = 0; keys && i < NB_LIST_GET_SIZE(keys.ptr()); ++i) {
    PyObject* const other = NB_LIST_GET_ITEM(keys.ptr(), i);
    if (PyObject_RichCompareBool(other, key.ptr(), Py_EQ) != 0) continue;
    const Ref hook(PyObject_GetItem(hooks.ptr(), other));
    if (!hook || PyObject_DelItem(hooks.ptr(), other) != 0 || PyObject_SetItem(hooks.ptr(), other, hook.ptr()) != 0)
      break;
  }
  ClearError();
}

void ParameterTap::TakeOffLateHook() noexcept {
  if (!late_hook_) return;
  (void)CallMethod(late_hook_.ptr(), "remove");
  late_hook_ = Ref();
}

void ParameterTap::OnAccumulated() noexcept {
  CatchAndReport(*context_, "the hook of an un-reduced gradient", [this] {
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr) return;
    const uint32_t count = rows_.unreduced.CountPass(*context_);
    if (const Ref gradient = Gradient()) SeeUnreduced(*recorder, gradient.ptr(), count);
  });
}

void ParameterTap::OnReduction(PyObject* gradient, bool is_last) noexcept {
  CatchAndReport(*context_, "a gradient that is about to be reduced", [&] {
    Recorder* const recorder = RecorderOfUnreduced();
    if (recorder == nullptr) return;
    front_end::UnreducedRows& rows = rows_.unreduced;
    const uint32_t seen = is_last ? rows.CountOfPasses(context_->step) : 0;
    if (seen != 0 && rows.EndsSeries(context_->step, seen, context_->grad_acc_steps)) return;
    SeeUnreduced(*recorder, gradient, seen == 0 ? rows.CountPass(*context_) : seen);
  });
}

void ParameterTap::BeginGradient(Recorder& recorder) {
  if (rows_.BeginGradient(recorder, context_->step)) Saw(SiteKind::kGradUnreduced);
}

void ParameterTap::EndStep(Recorder& recorder) {
  if (rows_.unreduced.EndStep(recorder, context_->step)) Saw(SiteKind::kGradUnreduced);
}

void ParameterTap::SeeUnreduced(Recorder& recorder, PyObject* gradient, uint32_t pass) {
  if (rows_.unreduced.Observe(*context_, recorder, gradient, pass)) Saw(SiteKind::kGradUnreduced);
}

void ParameterBatch::Add(SiteKind kind, ParameterTap& tap, Ref tensor) {
  const SeenTensor seen = context_->reader.Read(tensor.ptr());
  if (seen.problem != nullptr) {
    if (Ref values = context_->reader.SparseValues(tensor.ptr())) return Add(kind, tap, std::move(values));
    context_->reporter.Unmeasurable(kind, seen.problem);
  } else if (seen.view.numel == 0) {  // a parameter without a part on this rank
    tap.SawEmpty(kind);
    return;
  }
  tap.Saw(kind);
  const SiteId site = tap.rows().site(kind);
  if (Recorder* const recorder = context_->recorder;
      recorder != nullptr && context_->late.Takes(*recorder, seen.view)) {
    if (!recorder->collects(context_->GroupOf(site))) return;
    late_.push_back({kind, tap.rows().At(kind, context_->step), tensor.ptr(), seen.view, {}, false});
    kept_late_.push_back(std::move(tensor));
  } else {
    now_.Add(tap.rows().At(kind, context_->step), seen.view, std::move(tensor));
  }
}

void ParameterBatch::ObserveLate(Recorder& recorder, std::vector<LateItem> items) noexcept {
  if (items.empty()) return;
  CatchAndReport(*context_, "measuring tensors on their device", [&] {
    context_->late.Measure(recorder, context_->groups, items.data(), items.size());
    for (const LateItem& item : items)
      if (item.is_recorded) recorder.Enqueue(item.record);
  });
}

void ParameterBatch::Observe(Recorder& recorder) noexcept {
  // Removed first: another thread may step while this one measures without the GIL.
  const front_end::TensorBatch<Ref> now = std::exchange(now_, {});
  const std::vector<Ref> kept_late = std::exchange(kept_late_, {});
  ObserveLate(recorder, std::exchange(late_, {}));
  if (now.empty()) return;
  const nanobind::gil_scoped_release released;
  now.Observe(recorder);
}

namespace {

// A tensor of the optimizer's state of one parameter, or an empty reference.
Ref StateOf(PyObject* state, const char* name) {
  Ref tensor(PyMapping_GetItemString(state, name));
  ClearError();
  return tensor;
}

}  // namespace

int ParameterGroup::BeforeUpdate(const ParameterSources& sources) noexcept {
  Recorder* const recorder = context_->Collecting();
  int without_moments = 0;
  if (recorder == nullptr) return 0;
  CatchAndReport(*context_, "reading parameters before the update", [&] {
    for (const auto& tap : taps_)
      if (tap->rows().wanted()) ReadBefore(*recorder, *tap, sources, &without_moments);
  });
  batch_.Observe(*recorder);
  return without_moments;
}

// A subscript would add an entry: optimizers use a defaultdict.
Ref ParameterGroup::From(PyObject* source, PyObject* parameter) const {
  Ref found = CallMethod(source, context_->names.get, parameter);
  return found && found.ptr() != Py_None ? std::move(found) : Ref();
}

void ParameterGroup::ReadBefore(Recorder& recorder, ParameterTap& tap, const ParameterSources& sources,
                                int* without_moments) {
  front_end::ParameterRows& rows = tap.rows();
  if (!sources.continues) rows.BeginUpdate(context_->step);
  tap.BeginGradient(recorder);
  const bool wants_reduced = rows.Wants(SiteKind::kGradReduced);
  Ref gradient;
  if (sources.is_reduced && (wants_reduced || rows.Wants(SiteKind::kMgDirection)))
    gradient = sources.reduced == nullptr ? tap.Gradient() : From(sources.reduced, tap.parameter());
  if (wants_reduced && gradient) batch_.Add(SiteKind::kGradReduced, tap, gradient);
  if (rows.WantsMoments() && !ReadMoments(recorder, tap, sources.state, gradient)) ++*without_moments;
  AddWeight(SiteKind::kParamOrigin, tap, sources);
}

// Returns false if there are no values.
bool ParameterGroup::ReadMoments(Recorder& recorder, ParameterTap& tap, PyObject* state, const Ref& gradient) {
  const front_end::ParameterRows& rows = tap.rows();
  const Ref own = From(state, tap.parameter());
  const Ref exp_avg = own ? StateOf(own.ptr(), "exp_avg") : Ref();
  const Ref exp_avg_sq = own ? StateOf(own.ptr(), "exp_avg_sq") : Ref();
  for (const auto& [kind, tensor] : {std::pair{SiteKind::kExpAvg, &exp_avg}, {SiteKind::kExpAvgSq, &exp_avg_sq}})
    if (rows.Wants(kind) && *tensor && context_->reader.IsTensor(tensor->ptr())) batch_.Add(kind, tap, *tensor);
  if (rows.Wants(SiteKind::kMgDirection) && gradient && exp_avg &&
      ObserveDirection(recorder, rows.At(SiteKind::kMgDirection, context_->step), gradient, exp_avg))
    tap.Saw(SiteKind::kMgDirection);
  return exp_avg || exp_avg_sq;
}

// Returns false if the gradient has no element.
bool ParameterGroup::ObserveDirection(Recorder& recorder, const Observation& at, const Ref& gradient,
                                      const Ref& momentum) {
  const TensorView view = context_->reader.Read(gradient.ptr()).view;
  const TensorView of_momentum = context_->reader.Read(momentum.ptr()).view;
  if (view.numel == 0) return false;
  if (!context_->late.Takes(recorder, view) || !context_->late.Takes(recorder, of_momentum)) {
    recorder.ObserveAgreement(at, view, of_momentum);
  } else if (recorder.collects(context_->GroupOf(at.site))) {
    LateItem item{SiteKind::kMgDirection, at, gradient.ptr(), view, {}, false};
    context_->late.ObserveAgreement(recorder, &item, {{}, {}, momentum.ptr(), of_momentum, {}, false});
  }
  return true;
}

void ParameterGroup::AddWeight(SiteKind kind, ParameterTap& tap, const ParameterSources& sources) {
  if (!tap.rows().Wants(kind)) return;
  Ref weight = sources.weights == nullptr ? Ref::Borrow(tap.parameter()) : From(sources.weights, tap.parameter());
  if (weight) batch_.Add(kind, tap, std::move(weight));
}

void ParameterGroup::AbandonUpdate() noexcept {
  for (const auto& tap : taps_) tap->rows().AbandonUpdate(context_->step);
}

void ParameterGroup::AfterUpdate(const ParameterSources& sources) noexcept {
  Recorder* const recorder = context_->Collecting();
  if (recorder == nullptr) return;
  CatchAndReport(*context_, "reading parameters after the update", [&] {
    for (const auto& tap : taps_) {
      AddWeight(SiteKind::kParamUpdated, *tap, sources);
      tap->rows().EndUpdate(context_->step);
    }
  });
  batch_.Observe(*recorder);
}

}  // namespace stepwatch::python
