#include "front_ends/torch/parameter_taps.h"

#include <c10/util/Type.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "front_ends/shared/update_counter.h"
#include "front_ends/torch/tensor_view.h"
#include "front_ends/torch/unreduced_gradient.h"

namespace stepwatch::torch_front {

struct ParameterTap {
  ParameterTap(const std::shared_ptr<Context>& context, const at::Tensor& parameter)
      : weak(parameter.getIntrusivePtr()), unreduced(std::make_shared<UnreducedGradient>(context)) {
    sites.fill(kNoSite);
  }
  ~ParameterTap() { TakeOff(); }
  ParameterTap(const ParameterTap&) = delete;
  ParameterTap& operator=(const ParameterTap&) = delete;

  SiteId site(SiteKind kind) const { return sites[static_cast<size_t>(kind)]; }
  at::Tensor Lock() const { return at::Tensor(weak.lock()); }
  bool Is(const at::Tensor& tensor) const { return weak._unsafe_get_target() == tensor.unsafeGetTensorImpl(); }
  // Until a plan sets sites.
  void WantNothing(Recorder* recorder) noexcept {
    sites.fill(kNoSite);
    wanted = is_read = owes_gradient = false;
    unreduced->rows.Want(recorder, kNoSite, false);
  }
  void TakeOff() noexcept { unreduced->TakeOff(Lock()); }
  void HangIfWanted() {
    if (!unreduced->rows.wanted() || unreduced->IsHung()) return;
    if (const at::Tensor parameter = Lock(); parameter.defined()) unreduced->Hang(parameter);
  }

  WeakTensor weak;
  std::array<SiteId, kSiteKindCount> sites;
  const std::shared_ptr<UnreducedGradient> unreduced;
  front_end::UpdateCounter updates;
  bool wanted = false;
  bool is_read = false;        // of the running update
  bool owes_gradient = false;  // the update has begun; its gradient may not be ready yet
};

namespace {

struct Moments {
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

// Undefined if there is no state yet, or it is not Adam's.
Moments MomentsOf(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  torch::optim::OptimizerParamState* state = found->second.get();
  if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(state)) return {adamw->exp_avg(), adamw->exp_avg_sq()};
  if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(state)) return {adam->exp_avg(), adam->exp_avg_sq()};
  return {};
}

bool KeepsMoments(torch::optim::Optimizer& optimizer) {
  return dynamic_cast<torch::optim::AdamW*>(&optimizer) != nullptr ||
         dynamic_cast<torch::optim::Adam*>(&optimizer) != nullptr;
}

// Frozen parameters have sites too, so that they are observed from the step in which they are unfrozen.
bool IsTrained(const at::Tensor& parameter) {
  return parameter.requires_grad() || parameter.grad().defined();
}

constexpr size_t kKindsBeforeUpdate = 4;  // grad_reduced, exp_avg, exp_avg_sq, param_origin

bool IsMomentKind(SiteKind kind) {
  return kind == SiteKind::kExpAvg || kind == SiteKind::kExpAvgSq || kind == SiteKind::kMgDirection;
}

}  // namespace

ParameterTaps::ParameterTaps(std::shared_ptr<Context> context) : context_(std::move(context)) {}
ParameterTaps::~ParameterTaps() = default;

void ParameterTaps::Build(const std::vector<at::Tensor>& parameters, const Shares& shares, std::vector<bool> are_own) {
  // Counts of a tensor in this step continue when its model is read again in mid-step.
  std::unordered_multimap<const void*, std::unique_ptr<ParameterTap>> known;
  for (auto& tap : taps_) {
    const void* const tensor = tap->Lock().unsafeGetTensorImpl();
    known.emplace(tensor, std::move(tap));
  }
  taps_.clear();
  are_own_ = std::move(are_own);
  said_no_moments_.resize(are_own_.size(), false);
  active_ = false;
  for (const at::Tensor& parameter : parameters) {
    const auto found = known.find(parameter.unsafeGetTensorImpl());
    if (found == known.end()) {
      taps_.push_back(std::make_unique<ParameterTap>(context_, parameter));
    } else {
      taps_.push_back(std::move(found->second));
      taps_.back()->WantNothing(context_->recorder);
      known.erase(found);
    }
  }
  Share(shares, are_own_.size());
}

void ParameterTaps::Share(const Shares& shares, size_t optimizer_count) {
  of_optimizer_.assign(optimizer_count, {});
  shares_ = shares;
  for (size_t i = 0; i < taps_.size(); ++i)
    for (const size_t optimizer : shares[i]) of_optimizer_[optimizer].push_back(taps_[i].get());
  size_t most = 0;
  for (const auto& list : of_optimizer_) most = std::max(most, list.size());
  batch_.Reserve(kKindsBeforeUpdate * most);
}

void ParameterTaps::Add(SiteKind kind, const Observation& at, const at::Tensor& tensor) {
  SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) context_->reporter.Unmeasurable(kind, seen.problem);
  batch_.Add(at, seen.view, seen.kept.defined() ? std::move(seen.kept) : tensor);
}

void ParameterTaps::ObserveBatch(Recorder& recorder) noexcept {
  batch_.Observe(recorder);
  batch_.Clear();
}

void ParameterTaps::Rebind(const std::vector<at::Tensor>& parameters, const Shares& shares) {
  std::vector<size_t> moved;
  for (size_t i = 0; i < taps_.size(); ++i)
    if (!taps_[i]->Is(parameters[i])) moved.push_back(i);
  for (const size_t i : moved) taps_[i]->TakeOff();
  for (const size_t i : moved) {
    taps_[i]->weak = WeakTensor(parameters[i].getIntrusivePtr());
    taps_[i]->HangIfWanted();
  }
  Share(shares, of_optimizer_.size());
}

bool ParameterTaps::IsBound(size_t parameter, const at::Tensor& tensor) const {
  return taps_[parameter]->Is(tensor);
}

void ParameterTaps::Swap(const RecordLayout* layout) noexcept {
  active_ = wants_moments_ = false;
  for (auto& tap : taps_) tap->WantNothing(context_->recorder);
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    if (OwnerOf(site.kind) != SiteOwner::kParameter || site.owner >= taps_.size()) continue;
    taps_[site.owner]->sites[static_cast<size_t>(site.kind)] = static_cast<SiteId>(i);
    taps_[site.owner]->wanted = active_ = true;
    wants_moments_ = wants_moments_ || IsMomentKind(site.kind);
  }
  for (auto& tap : taps_) {
    front_end::UnreducedRows& rows = tap->unreduced->rows;
    rows.Want(context_->recorder, tap->site(SiteKind::kGradUnreduced),
              layout != nullptr && layout->micro_step_in_grad_unreduced);
    if (!rows.wanted()) tap->TakeOff();
    Guarded(*context_, "hooking a gradient", [&] { tap->HangIfWanted(); });
  }
}

void ParameterTaps::BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  Guarded(*context_, "reading parameters before the update", [&] {
    if (wants_moments_) SayIfNoMoments(object, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer])
      if (tap->wanted) CollectBefore(*recorder, *tap, object, are_own_[optimizer]);
  });
  ObserveBatch(*recorder);
}

void ParameterTaps::CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object, bool is_own) {
  const at::Tensor parameter = tap.Lock();
  // An optimizer that updates within another one's step makes one update, and its gradient is ready now.
  const bool is_inside = std::exchange(tap.owes_gradient, is_own) && tap.is_read;
  if (!is_inside) {
    tap.updates.Begin(context_->step.load(std::memory_order_relaxed));
    tap.is_read = parameter.defined() && IsTrained(parameter);
  }
  if (!parameter.defined()) return;
  if (!is_own) CollectGradient(recorder, tap, parameter);
  if (!tap.is_read) return;
  if (wants_moments_) CollectState(tap, parameter, object);
  if (wants_moments_ && !is_own) CollectDirection(recorder, tap, parameter, object);
  const SiteId origin = tap.site(SiteKind::kParamOrigin);
  if (origin != kNoSite && !is_inside)
    Add(SiteKind::kParamOrigin, {origin, 0, kNoElement, tap.updates.Current(context_->step)}, parameter);
}

// Reads the gradient of an update, and the un-reduced gradients that belong to it.
void ParameterTaps::CollectGradient(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter) {
  const uint32_t step = context_->step;
  const uint16_t update = tap.updates.Current(step);
  if (front_end::UnreducedRows& rows = tap.unreduced->rows; rows.wanted()) {
    (void)rows.EnqueueKept(recorder, step);
    rows.BeginUpdate(step, update);
  }
  const SiteId reduced = tap.site(SiteKind::kGradReduced);
  if (reduced != kNoSite && parameter.grad().defined())
    Add(SiteKind::kGradReduced, {reduced, 0, kNoElement, update}, parameter.grad());
}

void ParameterTaps::CollectOwed(Recorder& recorder, size_t optimizer) {
  for (ParameterTap* tap : of_optimizer_[optimizer]) {
    if (!std::exchange(tap->owes_gradient, false)) continue;
    if (const at::Tensor parameter = tap->Lock(); parameter.defined()) CollectGradient(recorder, *tap, parameter);
  }
}

void ParameterTaps::CollectState(ParameterTap& tap, const at::Tensor& parameter, torch::optim::Optimizer& object) {
  const Moments moments = MomentsOf(object, parameter);
  if (!moments.exp_avg.defined()) return;
  const uint16_t update = tap.updates.Current(context_->step);
  const SiteId exp_avg = tap.site(SiteKind::kExpAvg);
  const SiteId exp_avg_sq = tap.site(SiteKind::kExpAvgSq);
  if (exp_avg != kNoSite) Add(SiteKind::kExpAvg, {exp_avg, 0, kNoElement, update}, moments.exp_avg);
  if (exp_avg_sq != kNoSite && moments.exp_avg_sq.defined())
    Add(SiteKind::kExpAvgSq, {exp_avg_sq, 0, kNoElement, update}, moments.exp_avg_sq);
}

void ParameterTaps::CollectDirection(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter,
                                     torch::optim::Optimizer& object) {
  const Moments moments = MomentsOf(object, parameter);
  const SiteId direction = tap.site(SiteKind::kMgDirection);
  if (direction == kNoSite || !moments.exp_avg.defined() || !parameter.grad().defined()) return;
  const SeenTensor gradient = See(parameter.grad());
  const SeenTensor momentum = See(moments.exp_avg);
  const char* problem = gradient.problem != nullptr ? gradient.problem : momentum.problem;
  if (problem != nullptr) context_->reporter.Unmeasurable(SiteKind::kMgDirection, problem);
  recorder.ObserveAgreement({direction, 0, kNoElement, tap.updates.Current(context_->step)}, gradient.view,
                            momentum.view);
}

void ParameterTaps::SayIfNoMoments(torch::optim::Optimizer& object, size_t optimizer) {
  const bool keeps = KeepsMoments(object);
  if (said_no_moments_[optimizer] || (keeps && !are_own_[optimizer])) return;
  said_no_moments_[optimizer] = true;
  size_t count = 0, directions = 0;
  for (const ParameterTap* tap : of_optimizer_[optimizer]) {
    const bool has_direction = tap->site(SiteKind::kMgDirection) != kNoSite;
    count += tap->site(SiteKind::kExpAvg) != kNoSite || has_direction;
    directions += has_direction;
  }
  if (keeps) {
    if (directions > 0)
      context_->reporter.Warn("mg_direction has no rows for " + std::to_string(directions) + " parameters of " +
                              c10::demangle(typeid(object).name()) +
                              ": the start of the update within its step is not visible; derive the class from "
                              "stepwatch::Watched<> of LibTorch's class, and call the step of that");
    return;
  }
  context_->reporter.Warn(
      c10::demangle(typeid(object).name()) +
      " keeps no exp_avg and exp_avg_sq (Adam and AdamW do): mv_distribution and mg_direction have no "
      "rows for its " +
      std::to_string(count) + " parameters");
}

void ParameterTaps::RepeatClosure(size_t optimizer) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  Guarded(*context_, "reading gradients within an update", [&] { CollectOwed(*recorder, optimizer); });
  ObserveBatch(*recorder);
}

void ParameterTaps::AfterUpdate(size_t optimizer) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  Guarded(*context_, "reading parameters after the update", [&] {
    CollectOwed(*recorder, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer]) {
      tap->unreduced->rows.EndUpdate(context_->step);
      const SiteId updated = tap->site(SiteKind::kParamUpdated);
      if (updated == kNoSite || !std::exchange(tap->is_read, false)) continue;
      const at::Tensor parameter = tap->Lock();
      if (parameter.defined())
        Add(SiteKind::kParamUpdated, {updated, 0, kNoElement, tap->updates.Current(context_->step)}, parameter);
    }
  });
  ObserveBatch(*recorder);
}

void ParameterTaps::AbandonUpdate(size_t optimizer) noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  for (ParameterTap* tap : of_optimizer_[optimizer]) {
    tap->owes_gradient = false;
    tap->updates.Abandon(step);
    tap->unreduced->rows.AbandonUpdate(step);
  }
}

void ParameterTaps::BeforeEndOfStep() noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  for (auto& tap : taps_) (void)tap->unreduced->rows.EndStep(*recorder, context_->step);
  Guarded(*context_, "hooking a gradient", [&] {
    for (auto& tap : taps_) tap->HangIfWanted();  // another program has replaced the hook
  });
  if (of_optimizer_.empty() && !said_no_optimizer_)
    Guarded(*context_, "looking for an optimizer", [this] { SayNoOptimizer(); });
}

void ParameterTaps::SayNoOptimizer() {
  std::string kinds;
  for (size_t i = 0; i < kSiteKindCount; ++i) {
    const auto kind = static_cast<SiteKind>(i);
    const bool wanted =
        kind != SiteKind::kGradUnreduced &&
        std::any_of(taps_.begin(), taps_.end(), [&](const auto& tap) { return tap->site(kind) != kNoSite; });
    if (wanted) kinds += (kinds.empty() ? "" : ", ") + std::string(SiteKindName(kind));
  }
  if (kinds.empty()) return;
  said_no_optimizer_ = true;
  context_->reporter.Warn(
      kinds +
      " have no rows: they are read around the update of an attached optimizer, and none is attached; "
      "attach it with Attach(model, optimizer)");
}

}  // namespace stepwatch::torch_front
