#include "front_ends/torch/parameter_taps.h"

#include <c10/util/Type.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <typeinfo>
#include <utility>

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
  void TakeOff() noexcept { unreduced->TakeOff(Lock()); }

  WeakTensor weak;
  std::array<SiteId, kSiteKindCount> sites;
  const std::shared_ptr<UnreducedGradient> unreduced;
  bool wanted = false;
  bool is_read = false;  // in the update that is under way
};

namespace {

struct Moments {
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

// Undefined if there is no state yet, or none of Adam's kind.
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

// Frozen ones have sites as well, so that they are seen from the step on in which they are trained.
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

void ParameterTaps::Build(const std::vector<at::Tensor>& parameters, const std::vector<int>& optimizers,
                          size_t optimizer_count) {
  taps_.clear();
  said_no_moments_.resize(optimizer_count, false);
  updates_.resize(optimizer_count);
  active_ = false;
  for (const at::Tensor& parameter : parameters) taps_.push_back(std::make_unique<ParameterTap>(context_, parameter));
  Share(optimizers, optimizer_count);
}

void ParameterTaps::Share(const std::vector<int>& optimizers, size_t optimizer_count) {
  of_optimizer_.assign(optimizer_count, {});
  optimizers_ = optimizers;
  for (size_t i = 0; i < taps_.size(); ++i)
    if (optimizers[i] >= 0) of_optimizer_[static_cast<size_t>(optimizers[i])].push_back(taps_[i].get());
  size_t most = 0;
  for (const auto& list : of_optimizer_) most = std::max(most, list.size());
  batch_.Reserve(kKindsBeforeUpdate * most);
}

void ParameterTaps::Rebind(const std::vector<at::Tensor>& parameters, const std::vector<int>& optimizers) {
  for (size_t i = 0; i < taps_.size(); ++i) {
    ParameterTap& tap = *taps_[i];
    if (tap.Is(parameters[i])) continue;
    tap.TakeOff();
    tap.weak = WeakTensor(parameters[i].getIntrusivePtr());
    if (tap.unreduced->wanted() && parameters[i].defined()) tap.unreduced->Hang(parameters[i]);
  }
  Share(optimizers, of_optimizer_.size());
}

bool ParameterTaps::IsBound(size_t parameter, const at::Tensor& tensor) const {
  return taps_[parameter]->Is(tensor);
}

void ParameterTaps::Swap(const RecordLayout* layout) noexcept {
  active_ = wants_moments_ = false;
  for (auto& tap : taps_) {
    tap->sites.fill(kNoSite);
    tap->wanted = tap->is_read = false;
  }
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    if (OwnerOf(site.kind) != SiteOwner::kParameter || site.owner >= taps_.size()) continue;
    taps_[site.owner]->sites[static_cast<size_t>(site.kind)] = static_cast<SiteId>(i);
    taps_[site.owner]->wanted = active_ = true;
    wants_moments_ = wants_moments_ || IsMomentKind(site.kind);
  }
  for (auto& tap : taps_) {
    UnreducedGradient& unreduced = *tap->unreduced;
    unreduced.Want(tap->site(SiteKind::kGradUnreduced), layout != nullptr && layout->micro_step_in_grad_unreduced);
    if (!unreduced.wanted()) {
      tap->TakeOff();
    } else if (!unreduced.IsHung()) {
      Guarded(*context_, "hooking a gradient", [&] {
        if (const at::Tensor parameter = tap->Lock(); parameter.defined()) unreduced.Hang(parameter);
      });
    }
  }
}

void ParameterTaps::BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  const uint16_t update = BeginUpdate(optimizer);
  Guarded(*context_, "reading parameters before the update", [&] {
    if (wants_moments_) SayIfNoMoments(object, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer])
      if (tap->wanted) CollectBefore(*recorder, *tap, object, update);
  });
  batch_.Observe(*recorder);
}

// Returns how many updates of the optimizer this step has seen before, and whether this one repeats another.
uint16_t ParameterTaps::BeginUpdate(size_t optimizer) noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  Updates& updates = updates_[optimizer];
  if (updates.step != step) updates = {step, 0};
  updates.current = updates.begun | (updates.has_failed ? kRepeatedUpdate : uint16_t{0});
  updates.has_failed = false;
  if (updates.begun < kUpdatesMax) ++updates.begun;
  return updates.current;
}

void ParameterTaps::CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object,
                                  uint16_t update) {
  tap.is_read = false;
  const at::Tensor parameter = tap.Lock();
  if (!parameter.defined()) return;
  if (tap.unreduced->wanted()) {
    tap.unreduced->BeginUpdate(recorder, update);
    if (!tap.unreduced->IsHung()) tap.unreduced->Hang(parameter);  // somebody else has taken its place
  }
  if (!IsTrained(parameter)) return;
  tap.is_read = true;
  const SiteId reduced = tap.site(SiteKind::kGradReduced);
  if (reduced != kNoSite && parameter.grad().defined())
    batch_.Add(*context_, SiteKind::kGradReduced, {reduced, 0, kNoElement, update}, parameter.grad());
  if (wants_moments_) CollectState(recorder, tap, parameter, object, update);
  const SiteId origin = tap.site(SiteKind::kParamOrigin);
  if (origin != kNoSite) batch_.Add(*context_, SiteKind::kParamOrigin, {origin, 0, kNoElement, update}, parameter);
}

void ParameterTaps::CollectState(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter,
                                 torch::optim::Optimizer& object, uint16_t update) {
  const Moments moments = MomentsOf(object, parameter);
  if (!moments.exp_avg.defined()) return;
  const SiteId exp_avg = tap.site(SiteKind::kExpAvg);
  const SiteId exp_avg_sq = tap.site(SiteKind::kExpAvgSq);
  const SiteId direction = tap.site(SiteKind::kMgDirection);
  if (exp_avg != kNoSite) batch_.Add(*context_, SiteKind::kExpAvg, {exp_avg, 0, kNoElement, update}, moments.exp_avg);
  if (exp_avg_sq != kNoSite && moments.exp_avg_sq.defined())
    batch_.Add(*context_, SiteKind::kExpAvgSq, {exp_avg_sq, 0, kNoElement, update}, moments.exp_avg_sq);
  if (direction == kNoSite || !parameter.grad().defined()) return;
  const SeenTensor gradient = See(parameter.grad());
  const SeenTensor momentum = See(moments.exp_avg);
  const char* problem = gradient.problem != nullptr ? gradient.problem : momentum.problem;
  if (problem != nullptr) context_->reporter.Unmeasurable(SiteKind::kMgDirection, problem);
  recorder.ObserveAgreement({direction, 0, kNoElement, update}, gradient.view, momentum.view);
}

void ParameterTaps::SayIfNoMoments(torch::optim::Optimizer& object, size_t optimizer) {
  if (said_no_moments_[optimizer] || KeepsMoments(object)) return;
  said_no_moments_[optimizer] = true;
  size_t count = 0;
  for (const ParameterTap* tap : of_optimizer_[optimizer])
    count += tap->site(SiteKind::kExpAvg) != kNoSite || tap->site(SiteKind::kMgDirection) != kNoSite;
  context_->reporter.Warn(
      c10::demangle(typeid(object).name()) +
      " keeps no exp_avg and exp_avg_sq (Adam and AdamW do): mv_distribution and mg_direction give no "
      "rows for its " +
      std::to_string(count) + " parameters");
}

void ParameterTaps::AfterUpdate(size_t optimizer) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  const uint16_t update = updates_[optimizer].current;
  Guarded(*context_, "reading parameters after the update", [&] {
    for (ParameterTap* tap : of_optimizer_[optimizer]) {
      tap->unreduced->EndUpdate();
      const SiteId updated = tap->site(SiteKind::kParamUpdated);
      if (updated == kNoSite || !std::exchange(tap->is_read, false)) continue;
      const at::Tensor parameter = tap->Lock();
      if (parameter.defined())
        batch_.Add(*context_, SiteKind::kParamUpdated, {updated, 0, kNoElement, update}, parameter);
    }
  });
  batch_.Observe(*recorder);
}

void ParameterTaps::AbandonUpdate(size_t optimizer) noexcept {
  Updates& updates = updates_[optimizer];
  if (updates.step == context_->step.load(std::memory_order_relaxed) && updates.begun > 0) {
    --updates.begun;
    updates.has_failed = true;
  }
  for (ParameterTap* tap : of_optimizer_[optimizer]) tap->unreduced->AbandonUpdate();
}

void ParameterTaps::BeforeEndOfStep() noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  for (auto& tap : taps_) tap->unreduced->EndStep(*recorder);
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
  context_->reporter.Warn(kinds +
                          " give no rows: no optimizer is attached around whose update they are read; attach it by "
                          "Attach(model, optimizer)");
}

}  // namespace stepwatch::torch_front
