#include "front_ends/torch/parameter_taps.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {

namespace ag = torch::autograd;

// The un-reduced gradient of one parameter: what has been accumulated when backward has come by `grad_acc_steps` times
// in this step, or each time. The hook sits on the parameter's AccumulateGrad node, which autograd holds only weakly
// and makes anew when the parameter changes its dtype or device: the node is kept here, and compared at every update.
class UnreducedGradient {
 public:
  UnreducedGradient(Context* context, const WeakTensor* parameter) : context_(context), parameter_(parameter) {}
  ~UnreducedGradient() { Remove(); }

  void Want(SiteId site, bool each_micro_batch) noexcept {
    site_ = site;
    each_ = each_micro_batch;
  }
  bool wanted() const { return site_ != kNoSite; }

  void Install(const at::Tensor& parameter);
  void Remove() noexcept {
    if (node_) node_->del_post_hook(key_);
    node_ = {};
  }
  // At the entry of the optimizer's step: a step with fewer micro-batches than announced, or a node that has changed.
  void CatchUp(Recorder& recorder, const at::Tensor& parameter);

 private:
  struct Hook;
  void OnAccumulated() noexcept;
  void Observe(Recorder& recorder, const at::Tensor& gradient, uint32_t count) {
    const Observation at{site_, static_cast<int32_t>(count) - 1};
    context_->Observe(recorder, SiteKind::kGradUnreduced, at, gradient);
  }

  Context* const context_;
  const WeakTensor* const parameter_;
  SiteId site_ = kNoSite;
  bool each_ = false;
  StepCounter calls_;
  c10::intrusive_ptr<ag::Node> node_;
  uintptr_t key_ = 0;
};

struct UnreducedGradient::Hook : ag::FunctionPostHook {
  explicit Hook(UnreducedGradient* of) : gradient(of) {}
  ag::variable_list operator()(const ag::variable_list& outputs, const ag::variable_list&) override {
    gradient->OnAccumulated();
    return outputs;
  }
  UnreducedGradient* const gradient;
};

void UnreducedGradient::Install(const at::Tensor& parameter) {
  Remove();
  if (!parameter.requires_grad() || !parameter.is_leaf()) return;
  auto node = ag::impl::grad_accumulator(parameter);
  if (!node) return;
  key_ = node->add_post_hook(std::make_unique<Hook>(this));
  node_ = std::move(node);
}

void UnreducedGradient::OnAccumulated() noexcept {
  Guarded(*context_, "the hook of an un-reduced gradient", [this] {
    Recorder* recorder = context_->Collecting();
    if (recorder == nullptr || !wanted()) return;
    const uint32_t count = calls_.Add(context_->step.load(std::memory_order_relaxed));
    if (!each_ && count != static_cast<uint32_t>(context_->grad_acc_steps)) return;
    const at::Tensor parameter(parameter_->lock());
    if (parameter.defined() && parameter.grad().defined()) Observe(*recorder, parameter.grad(), count);
  });
}

void UnreducedGradient::CatchUp(Recorder& recorder, const at::Tensor& parameter) {
  const uint32_t count = calls_.Count(context_->step.load(std::memory_order_relaxed));
  if (count == 0) {
    if (node_ && ag::impl::try_get_grad_accumulator(parameter) == node_) return;  // no backward has come by
    Install(parameter);
    if (!node_) return;
  } else if (each_ || count >= static_cast<uint32_t>(context_->grad_acc_steps)) {
    return;
  }
  if (parameter.grad().defined()) Observe(recorder, parameter.grad(), count == 0 ? 1 : count);
}

struct ParameterTap {
  ParameterTap(Context* context, const at::Tensor& parameter)
      : weak(parameter.getIntrusivePtr()), unreduced(context, &weak) {
    sites.fill(kNoSite);
  }
  SiteId site(SiteKind kind) const { return sites[static_cast<size_t>(kind)]; }
  at::Tensor Lock() const { return at::Tensor(weak.lock()); }

  WeakTensor weak;
  std::array<SiteId, kSiteKindCount> sites;
  UnreducedGradient unreduced;
  bool wanted = false;
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
  without_optimizer_.clear();
  of_optimizer_.assign(optimizer_count, {});
  said_no_moments_.resize(optimizer_count, false);
  active_ = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    taps_.push_back(std::make_unique<ParameterTap>(context_.get(), parameters[i]));
    auto& list = optimizers[i] < 0 ? without_optimizer_ : of_optimizer_[static_cast<size_t>(optimizers[i])];
    list.push_back(taps_.back().get());
  }
  size_t most = 0;
  for (const auto& list : of_optimizer_) most = std::max(most, list.size());
  batch_.Reserve(kKindsBeforeUpdate * most);
}

void ParameterTaps::Swap(const RecordLayout* layout) noexcept {
  active_ = wants_moments_ = false;
  for (auto& tap : taps_) {
    tap->sites.fill(kNoSite);
    tap->wanted = false;
  }
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    if (OwnerOf(site.kind) != SiteOwner::kParameter || site.owner >= taps_.size()) continue;
    taps_[site.owner]->sites[static_cast<size_t>(site.kind)] = static_cast<SiteId>(i);
    taps_[site.owner]->wanted = active_ = true;
    wants_moments_ = wants_moments_ || IsMomentKind(site.kind);
  }
  for (auto& tap : taps_) {
    UnreducedGradient& unreduced = tap->unreduced;
    const bool had = unreduced.wanted();
    unreduced.Want(tap->site(SiteKind::kGradUnreduced), layout != nullptr && layout->micro_step_in_grad_unreduced);
    if (had && !unreduced.wanted()) unreduced.Remove();
    if (!had && unreduced.wanted())
      Guarded(*context_, "hooking a gradient", [&] {
        if (const at::Tensor parameter = tap->Lock(); parameter.defined()) unreduced.Install(parameter);
      });
  }
}

void ParameterTaps::BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  Guarded(*context_, "reading parameters before the update", [&] {
    if (wants_moments_) SayIfNoMoments(object, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer])
      if (tap->wanted) CollectBefore(*recorder, *tap, object);
  });
  batch_.Observe(*recorder);
}

void ParameterTaps::CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object) {
  const at::Tensor parameter = tap.Lock();
  if (!parameter.defined()) return;
  if (tap.unreduced.wanted()) tap.unreduced.CatchUp(recorder, parameter);
  const SiteId reduced = tap.site(SiteKind::kGradReduced);
  if (reduced != kNoSite && parameter.grad().defined())
    batch_.Add(*context_, SiteKind::kGradReduced, reduced, parameter.grad());
  if (wants_moments_) CollectState(recorder, tap, parameter, object);
  const SiteId origin = tap.site(SiteKind::kParamOrigin);
  if (origin != kNoSite) batch_.Add(*context_, SiteKind::kParamOrigin, origin, parameter);
}

void ParameterTaps::CollectState(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter,
                                 torch::optim::Optimizer& object) {
  const Moments moments = MomentsOf(object, parameter);
  if (!moments.exp_avg.defined()) return;
  const SiteId exp_avg = tap.site(SiteKind::kExpAvg);
  const SiteId exp_avg_sq = tap.site(SiteKind::kExpAvgSq);
  const SiteId direction = tap.site(SiteKind::kMgDirection);
  if (exp_avg != kNoSite) batch_.Add(*context_, SiteKind::kExpAvg, exp_avg, moments.exp_avg);
  if (exp_avg_sq != kNoSite && moments.exp_avg_sq.defined())
    batch_.Add(*context_, SiteKind::kExpAvgSq, exp_avg_sq, moments.exp_avg_sq);
  if (direction == kNoSite || !parameter.grad().defined()) return;
  const SeenTensor gradient = See(parameter.grad());
  const SeenTensor momentum = See(moments.exp_avg);
  const char* problem = gradient.problem != nullptr ? gradient.problem : momentum.problem;
  if (problem != nullptr) context_->reporter.Unmeasurable(SiteKind::kMgDirection, problem);
  recorder.ObserveAgreement({direction}, gradient.view, momentum.view);
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
  Guarded(*context_, "reading parameters after the update", [&] {
    for (ParameterTap* tap : of_optimizer_[optimizer]) {
      const SiteId updated = tap->site(SiteKind::kParamUpdated);
      if (updated == kNoSite) continue;
      const at::Tensor parameter = tap->Lock();
      if (parameter.defined()) batch_.Add(*context_, SiteKind::kParamUpdated, updated, parameter);
    }
  });
  batch_.Observe(*recorder);
}

void ParameterTaps::BeforeEndOfStep() noexcept {
  Recorder* recorder = active_ && !without_optimizer_.empty() ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  Guarded(*context_, "reading gradients at the end of the step", [&] {
    for (ParameterTap* tap : without_optimizer_) {
      if (!tap->unreduced.wanted()) continue;
      const at::Tensor parameter = tap->Lock();
      if (parameter.defined()) tap->unreduced.CatchUp(*recorder, parameter);
    }
  });
}

}  // namespace stepwatch::torch_front
