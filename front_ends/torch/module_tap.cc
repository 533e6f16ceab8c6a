#include "front_ends/torch/module_tap.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/shared/watched_call.h"
#include "front_ends/torch/torch_graph.h"
#include "stepwatch/torch/forward_call.h"
#include "stepwatch/torch/tap_point.h"

namespace stepwatch {

using torch_front::CallPosition;
using torch_front::Context;
using torch_front::kNoSite;

TapPoint::~TapPoint() {
  if (attached_ != nullptr) attached_->PointDied();
}

ModuleTap::ModuleTap(std::shared_ptr<Context> context, std::shared_ptr<torch_front::StepCounter> root_entries,
                     TapPoint* point, std::string key, bool is_root, uint32_t index)
    : context_(std::move(context)),
      root_entries_(std::move(root_entries)),
      key_(std::move(key)),
      is_root_(is_root),
      index_(index),
      point_(point) {
  point_->attached_ = this;
}

ModuleTap::~ModuleTap() {
  Detach();
}

void ModuleTap::AttachTo(TapPoint* point) noexcept {
  Detach();
  if (point == nullptr || point->attached_ != nullptr) return;
  point_ = point;
  point_->attached_ = this;
}

bool ModuleTap::IsAttached(const TapPoint& point) {
  return point.attached_ != nullptr;
}

void ModuleTap::Detach() noexcept {
  if (point_ == nullptr) return;
  Arm(false, false);
  point_->attached_ = nullptr;
  point_ = nullptr;
}

void ModuleTap::Arm(bool watches, bool times) noexcept {
  watches_ = watches;
  if (point_ != nullptr) point_->armed_.store(watches || times ? this : nullptr, std::memory_order_release);
}

CallPosition ModuleTap::NextCall() noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  if (!was_called()) was_called_.store(true, std::memory_order_relaxed);
  if (is_root_) root_entries_->Add(step);
  uint32_t marks = context_->marks.Count(step);
  if (marks == 0) marks = root_entries_->Count(step);
  return calls_.Next(step, marks, context_->grad_acc_steps);
}

void ModuleTap::BeginForward(std::optional<PartScope>* time) const noexcept {
  if (is_root_) context_->inner_parts.BeginForward(time);
}

namespace {

uint16_t ElementOf(size_t index, size_t count) {
  return count == 1 ? kNoElement : static_cast<uint16_t>(index);
}

// One of the outputs of a call.
struct Output {
  const at::Tensor* found;  // null: an element that is not a tensor
  uint16_t element;

  bool is_tensor() const { return found != nullptr; }
  const at::Tensor& tensor() const { return *found; }
};

}  // namespace

namespace detail {

struct ForwardCall::Frame {
  ModuleTap& tap;
  Context& context;
  front_end::WatchedCall<torch_front::TorchGraph> call;
};

ForwardCall::ForwardCall(ModuleTap& tap, bool training) noexcept {
  Context& context = *tap.context_;
  Recorder* recorder = context.Collecting();
  if (recorder == nullptr || !training) return;
  if (tap.watches_) Watch(tap, recorder);
  if (!wanted()) tap.BeginForward(&time_);  // else behind the inputs, whose reading is no part of it
}

void ForwardCall::Watch(ModuleTap& tap, Recorder* recorder) noexcept {
  Context& context = *tap.context_;
  // A call that is left out is not numbered either, so that rows of training keep their names.
  if (!at::GradMode::is_enabled() && !context.AdmitWithoutGradient()) return;
  const CallPosition at = tap.NextCall();
  if (!recorder->collects(tap.sites_.groups) && context.structure == nullptr) return;
  CatchAndReport(context, "watching a module", [&] {
    frame_.reset(new Frame{tap, context, {tap.context_, recorder, tap.sites_, at}});
  });
  if (frame_ != nullptr) recorder->NoteModule(tap.index_, true, at.micro_step);
}

ForwardCall::~ForwardCall() {
  if (frame_ == nullptr) return;
  frame_->call.recorder().NoteModule(frame_->tap.index_, false, frame_->call.micro_step());
}

void ForwardCall::Before(const InputList& inputs) noexcept {
  auto& call = frame_->call;
  CatchAndReport(frame_->context, "reading a module's input", [&] {
    call.ReserveInputs(inputs.size());
    front_end::CallGraph<torch_front::TorchGraph>* graph = nullptr;
    if (at::GradMode::is_enabled() && call.wants_gradients()) graph = &call.WatchGradients(torch_front::TorchGraph());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint16_t element = ElementOf(i, inputs.size());
      call.ReadInput(*inputs[i], element);
      if (graph == nullptr) continue;
      graph->gradients().ExpectInput(element);
      (void)graph->AddInput(*inputs[i], element);
    }
    if (graph != nullptr) graph->BeginForward();
  });
  frame_->tap.BeginForward(&time_);
}

void ForwardCall::After(const OutputList& outputs) noexcept {
  time_.reset();
  Context& context = frame_->context;
  auto& call = frame_->call;
  CatchAndReport(context, "reading a module's output", [&] {
    const size_t count = outputs.tensors.size();
    c10::SmallVector<Output, 4> found;
    for (size_t i = 0; i < count; ++i) found.push_back({outputs.tensors[i], ElementOf(i, count)});
    if (!at::GradMode::is_enabled()) context.NoteRowsWithoutGradient(call.CountRows(count));
    call.EnqueueRows(found);
    if (frame_->tap.sites_.output != kNoSite && count == 0 && !outputs.is_tuple)
      context.WarnUnreadable(frame_->tap.key_);
    if (call.wants_structure()) {
      const std::string kind = outputs.is_tuple ? "tuple[" + std::to_string(count) + "]" : "tensor";
      call.DescribeCall(frame_->tap.key_, count == 0 ? kNoTensor : kind, found);
    }
    call.HangHooks(found);
  });
}

}  // namespace detail

namespace torch_front {

void ModuleTaps::Build(const ModelIndex& index) {
  taps_.clear();
  chunks_.clear();
  std::shared_ptr<StepCounter> root_entries;
  for (size_t i = 0; i < index.points.size(); ++i) {
    const ModuleEntry& entry = index.sites.modules[i];
    const bool is_root = entry.name.empty();
    if (is_root) root_entries = std::make_shared<StepCounter>();
    chunks_.push_back(entry.chunk);
    taps_.push_back(nullptr);
    // A module that two chunks share belongs to the first.
    if (index.points[i] == nullptr || ModuleTap::IsAttached(*index.points[i])) continue;
    const std::string key = std::to_string(entry.chunk) + ":" + entry.name;
    taps_.back() =
        std::make_unique<ModuleTap>(context_, root_entries, index.points[i], key, is_root, static_cast<uint32_t>(i));
  }
}

// Detaches all moved taps first: modules may have changed places.
void ModuleTaps::Rebind(const std::vector<TapPoint*>& points) {
  for (size_t i = 0; i < taps_.size(); ++i)
    if (taps_[i] != nullptr && taps_[i]->point() != points[i]) taps_[i]->Detach();
  for (size_t i = 0; i < taps_.size(); ++i)
    if (taps_[i] != nullptr && taps_[i]->point() == nullptr) taps_[i]->AttachTo(points[i]);
  Arm();
}

bool ModuleTaps::IsOn(const TapPoint& point) const {
  return std::any_of(taps_.begin(), taps_.end(), [&](const auto& tap) { return tap != nullptr && tap->IsOn(point); });
}

void ModuleTaps::Swap(const RecordLayout* layout) noexcept {
  has_plan_ = layout != nullptr;
  collected_steps_ = 0;
  for (auto& tap : taps_) {
    if (tap == nullptr) continue;
    tap->sites() = ModuleSites();
    tap->ForgetCalls();
  }
  size_t rows = 0;
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    const bool is_actv = site.kind == SiteKind::kActv;
    if (!is_actv && site.kind != SiteKind::kActvGrad) continue;
    if (site.owner >= taps_.size() || taps_[site.owner] == nullptr) continue;
    taps_[site.owner]->sites().Add(site, static_cast<SiteId>(i));
    rows += is_actv;
  }
  context_->SetPlacesWithoutGradient(rows * static_cast<size_t>(context_->grad_acc_steps));
}

// A root counts micro-batches for its chunk, so it watches with any of its modules. It comes first in its chunk.
void ModuleTaps::Arm() noexcept {
  const bool all = context_->structure != nullptr;
  ModuleTap* root = nullptr;
  for (size_t i = 0; i < taps_.size(); ++i) {
    if (i == 0 || chunks_[i] != chunks_[i - 1]) root = nullptr;
    ModuleTap* tap = taps_[i].get();
    if (tap == nullptr) continue;
    if (tap->is_root()) root = tap;
    const bool wanted = all || tap->sites().any();
    tap->Arm(wanted, has_plan_ && tap->is_root());
    if (wanted && root != nullptr) root->Arm(true, has_plan_);
  }
}

void ModuleTaps::LookForUncalled() {
  if (warned_uncalled_ || collected_steps_ == 2 || ++collected_steps_ < 2) return;
  size_t selected = 0, uncalled = 0;
  const ModuleTap* first = nullptr;
  for (const auto& tap : taps_) {
    if (tap == nullptr || tap->point() == nullptr || !tap->sites().any()) continue;
    ++selected;
    if (tap->was_called()) continue;
    ++uncalled;
    if (first == nullptr) first = tap.get();
  }
  if (uncalled == 0) return;
  warned_uncalled_ = true;
  context_->reporter.Warn(
      std::to_string(uncalled) + " of " + std::to_string(selected) + " selected modules (\"" + first->key() +
      "\" is one) were not seen to run in two steps and have no rows of activations: a module is seen "
      "where forward is called in training mode, through the holder or the Watched type, and "
      "not where another method (forward_with_packed_input) computes the same");
}

}  // namespace torch_front
}  // namespace stepwatch
