#include "front_ends/torch/parameter_taps.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "front_ends/shared/parameter_rows.h"
#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// The rows of one parameter, and the hook that observes its un-reduced gradient.
//
// The hook is on the tensor, where torch calls it after an accumulation, and not on the node that accumulates: autograd
// holds that node weakly, and a node that is kept alive rejects gradients of another shape once the tensor gets other
// data. Torch has one place for such a hook. An existing hook is kept and called after ours; a later one replaces ours,
// which IsHung detects.
class HookedRows : public std::enable_shared_from_this<HookedRows> {
 public:
  explicit HookedRows(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  // Step thread, outside of backward passes.
  void Hang(const at::Tensor& parameter);
  void TakeOff(const at::Tensor& parameter) noexcept;
  bool IsHung() const { return hook_ != nullptr; }

  front_end::ParameterRows rows;

 private:
  class Hook;

  void OnAccumulated(const at::Tensor& parameter) noexcept;

  const std::shared_ptr<Context> context_;
  Hook* hook_ = nullptr;  // owned by the tensor
};

// Owned by the tensor, which may outlive the monitor, so the data it needs is shared.
class HookedRows::Hook final : public ag::PostAccumulateGradHook {
 public:
  Hook(std::shared_ptr<HookedRows> rows, std::unique_ptr<PostAccumulateGradHook> next)
      : rows_(std::move(rows)), next_(std::move(next)) {}
  ~Hook() override {
    if (rows_->hook_ == this) rows_->hook_ = nullptr;
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  // The previous hook may free the gradient, or update by it. A hook that was given up while another program's hook
  // wrapped it stays with its tensor, which may have no name any more, or another one.
  void operator()(const at::Tensor& parameter) override {
    if (rows_->hook_ == this) rows_->OnAccumulated(parameter);
    if (next_ != nullptr) (*next_)(parameter);
  }

  std::unique_ptr<PostAccumulateGradHook> TakeNext() { return std::move(next_); }

 private:
  const std::shared_ptr<HookedRows> rows_;
  std::unique_ptr<PostAccumulateGradHook> next_;
};

void HookedRows::Hang(const at::Tensor& parameter) {
  if (hook_ != nullptr || !parameter.is_leaf()) return;
  std::unique_ptr<ag::PostAccumulateGradHook> next;
  if (ag::impl::get_autograd_meta(parameter) != nullptr) next = std::move(ag::impl::post_acc_grad_hooks(parameter));
  auto hook = std::make_unique<Hook>(shared_from_this(), std::move(next));
  Hook* const hung = hook.get();
  ag::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
  hook_ = hung;
}

// A hook that another program has wrapped stays, and does nothing.
void HookedRows::TakeOff(const at::Tensor& parameter) noexcept {
  rows.unreduced.Discard(context_->recorder.load(std::memory_order_acquire));
  if (hook_ == nullptr || !parameter.defined()) return;
  std::unique_ptr<ag::PostAccumulateGradHook>& place = ag::impl::post_acc_grad_hooks(parameter);
  if (place.get() == hook_) place = hook_->TakeNext();
  hook_ = nullptr;
}

void HookedRows::OnAccumulated(const at::Tensor& parameter) noexcept {
  CatchAndReport(*context_, "the hook of an un-reduced gradient", [&] {
    if (!rows.unreduced.wanted()) return;
    const uint32_t pass = rows.unreduced.CountPass(*context_);
    // Backward passes within an update are those of a closure that the optimizer runs again: the gradient of its first
    // run is ready when the update begins, and the others have no rows. (Python, where an update that fails is over
    // only when the next one begins, marks them by Context::repeats_closure.)
    if (rows.unreduced.is_updating()) return;
    Recorder* const recorder = context_->Collecting();
    if (recorder != nullptr && parameter.grad().defined())
      (void)rows.unreduced.Observe(*context_, *recorder, parameter.grad(), pass);
  });
}

}  // namespace

struct ParameterTap {
  ParameterTap(const std::shared_ptr<Context>& context, const at::Tensor& parameter)
      : weak(parameter.getIntrusivePtr()), hooked(std::make_shared<HookedRows>(context)) {}
  ~ParameterTap() { TakeOff(); }
  ParameterTap(const ParameterTap&) = delete;
  ParameterTap& operator=(const ParameterTap&) = delete;

  front_end::ParameterRows& rows() const { return hooked->rows; }
  at::Tensor Lock() const { return at::Tensor(weak.lock()); }
  bool Is(const at::Tensor& tensor) const { return weak._unsafe_get_target() == tensor.unsafeGetTensorImpl(); }
  // Until a plan sets sites.
  void WantNothing(Recorder* recorder) noexcept {
    rows().WantNothing(recorder);
    is_read = owes_gradient = false;
  }
  void TakeOff() noexcept { hooked->TakeOff(Lock()); }
  void HangIfWanted() {
    if (!rows().unreduced.wanted() || hooked->IsHung()) return;
    if (const at::Tensor parameter = Lock(); parameter.defined()) hooked->Hang(parameter);
  }

  WeakTensor weak;
  const std::shared_ptr<HookedRows> hooked;  // shared with the hook: the tensor may outlive the monitor
  bool is_read = false;                      // of the running update
  bool owes_gradient = false;                // the update has begun; its gradient may not be ready yet
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
  warned_no_moments_.resize(are_own_.size(), false);
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

// Adds nothing if the kind is not wanted, or the tensor has no elements.
void ParameterTaps::Add(SiteKind kind, const ParameterTap& tap, const at::Tensor& tensor) {
  if (!tap.rows().Wants(kind) || !tensor.defined()) return;
  SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) context_->reporter.Unmeasurable(kind, seen.problem);
  if (seen.problem == nullptr && seen.view.numel == 0) return;
  batch_.Add(tap.rows().At(kind, context_->step), seen.view, seen.kept.defined() ? std::move(seen.kept) : tensor);
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
    front_end::ParameterRows& rows = taps_[site.owner]->rows();
    rows.Want(context_->recorder, site.kind, static_cast<SiteId>(i), layout->micro_step_in_grad_unreduced);
    active_ = true;
    wants_moments_ = wants_moments_ || rows.WantsMoments();
  }
  for (auto& tap : taps_) {
    if (!tap->rows().unreduced.wanted()) tap->TakeOff();
    CatchAndReport(*context_, "hooking a gradient", [&] { tap->HangIfWanted(); });
  }
}

void ParameterTaps::BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  CatchAndReport(*context_, "reading parameters before the update", [&] {
    if (wants_moments_) WarnIfNoMoments(object, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer])
      if (tap->rows().wanted()) CollectBefore(*recorder, *tap, object, are_own_[optimizer]);
  });
  ObserveBatch(*recorder);
}

void ParameterTaps::CollectBefore(Recorder& recorder, ParameterTap& tap, torch::optim::Optimizer& object, bool is_own) {
  const at::Tensor parameter = tap.Lock();
  // An optimizer that updates within another one's step makes one update, and its gradient is ready now.
  const bool is_inside = std::exchange(tap.owes_gradient, is_own) && tap.is_read;
  if (!is_inside) {
    tap.rows().BeginUpdate(context_->step);
    tap.is_read = parameter.defined() && IsTrained(parameter);
  }
  if (!parameter.defined()) return;
  if (!is_own) CollectGradient(recorder, tap, parameter);
  if (!tap.is_read) return;
  if (wants_moments_) CollectState(recorder, tap, parameter, object, is_own);
  if (!is_inside) Add(SiteKind::kParamOrigin, tap, parameter);
}

// Reads the gradient of an update, and the un-reduced gradients that belong to it.
void ParameterTaps::CollectGradient(Recorder& recorder, ParameterTap& tap, const at::Tensor& parameter) {
  (void)tap.rows().BeginGradient(recorder, context_->step);
  Add(SiteKind::kGradReduced, tap, parameter.grad());
}

void ParameterTaps::CollectOwed(Recorder& recorder, size_t optimizer) {
  for (ParameterTap* tap : of_optimizer_[optimizer]) {
    if (!std::exchange(tap->owes_gradient, false)) continue;
    if (const at::Tensor parameter = tap->Lock(); parameter.defined()) CollectGradient(recorder, *tap, parameter);
  }
}

void ParameterTaps::CollectState(Recorder& recorder, const ParameterTap& tap, const at::Tensor& parameter,
                                 torch::optim::Optimizer& object, bool is_own) {
  const Moments moments = MomentsOf(object, parameter);
  Add(SiteKind::kExpAvg, tap, moments.exp_avg);
  Add(SiteKind::kExpAvgSq, tap, moments.exp_avg_sq);
  if (is_own || !tap.rows().Wants(SiteKind::kMgDirection)) return;
  if (!moments.exp_avg.defined() || !parameter.grad().defined() || parameter.grad().numel() == 0) return;
  const SeenTensor gradient = See(parameter.grad());
  const SeenTensor momentum = See(moments.exp_avg);
  const char* problem = gradient.problem != nullptr ? gradient.problem : momentum.problem;
  if (problem != nullptr) context_->reporter.Unmeasurable(SiteKind::kMgDirection, problem);
  recorder.ObserveAgreement(tap.rows().At(SiteKind::kMgDirection, context_->step), gradient.view, momentum.view);
}

void ParameterTaps::WarnIfNoMoments(torch::optim::Optimizer& object, size_t optimizer) {
  const bool keeps = KeepsMoments(object);
  if (warned_no_moments_[optimizer] || (keeps && !are_own_[optimizer])) return;
  warned_no_moments_[optimizer] = true;
  size_t count = 0, directions = 0;
  for (const ParameterTap* tap : of_optimizer_[optimizer]) {
    const bool has_direction = tap->rows().Wants(SiteKind::kMgDirection);
    count += tap->rows().Wants(SiteKind::kExpAvg) || has_direction;
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
  CatchAndReport(*context_, "reading gradients within an update", [&] { CollectOwed(*recorder, optimizer); });
  ObserveBatch(*recorder);
}

void ParameterTaps::AfterUpdate(size_t optimizer) noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  CatchAndReport(*context_, "reading parameters after the update", [&] {
    CollectOwed(*recorder, optimizer);
    for (ParameterTap* tap : of_optimizer_[optimizer]) {
      tap->rows().EndUpdate(context_->step);
      if (tap->rows().Wants(SiteKind::kParamUpdated) && std::exchange(tap->is_read, false))
        Add(SiteKind::kParamUpdated, *tap, tap->Lock());
    }
  });
  ObserveBatch(*recorder);
}

void ParameterTaps::AbandonUpdate(size_t optimizer) noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  for (ParameterTap* tap : of_optimizer_[optimizer]) {
    tap->owes_gradient = false;
    tap->rows().AbandonUpdate(step);
  }
}

void ParameterTaps::BeforeEndOfStep() noexcept {
  Recorder* recorder = active_ ? context_->Collecting() : nullptr;
  if (recorder == nullptr) return;
  for (auto& tap : taps_) (void)tap->rows().unreduced.EndStep(*recorder, context_->step);
  CatchAndReport(*context_, "hooking a gradient", [&] {
    for (auto& tap : taps_) tap->HangIfWanted();  // another program has replaced the hook
  });
  if (of_optimizer_.empty() && !warned_no_optimizer_)
    CatchAndReport(*context_, "looking for an optimizer", [this] { WarnNoOptimizer(); });
}

void ParameterTaps::WarnNoOptimizer() {
  std::string kinds;
  for (size_t i = 0; i < kSiteKindCount; ++i) {
    const auto kind = static_cast<SiteKind>(i);
    const bool wanted =
        kind != SiteKind::kGradUnreduced &&
        std::any_of(taps_.begin(), taps_.end(), [&](const auto& tap) { return tap->rows().Wants(kind); });
    if (wanted) kinds += (kinds.empty() ? "" : ", ") + std::string(SiteKindName(kind));
  }
  if (kinds.empty()) return;
  warned_no_optimizer_ = true;
  context_->reporter.Warn(
      kinds +
      " have no rows: they are read around the update of an attached optimizer, and none is attached; "
      "attach it with Attach(model, optimizer)");
}

}  // namespace stepwatch::torch_front
