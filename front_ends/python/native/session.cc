#include "front_ends/python/native/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "front_ends/shared/registered_monitors.h"
#include "front_ends/shared/signal_recorder.h"

namespace stepwatch::python {
namespace {

// For a call that waits for threads of Stepwatch.
template <class F>
auto WithoutGil(const F& f) {
  const nanobind::gil_scoped_release released;
  return f();
}

}  // namespace

Session::Session(PyObject* torch, Options options, bool main_grad, std::function<void(const Event&)> on_event)
    : context_(std::make_shared<Context>(torch)),
      options_(std::move(options)),
      main_grad_(main_grad),
      extras_(context_) {
  context_->grad_acc_steps = std::max(options_.grad_acc_steps, 1);
  options_.on_event = std::move(on_event);
}

Session::~Session() {
  on_swap_ = nullptr;  // the receiver of its messages may be destroyed
  (void)Close(std::chrono::seconds(5));
}

Status Session::Start() {
  Result<std::unique_ptr<Monitor>> created = WithoutGil([&] { return Monitor::Create(options_); });
  if (!created.ok()) return created.status();
  monitor_ = std::move(created).value();
  context_->recorder = &monitor_->recorder();
  monitor_->recorder().SetLateResults(context_->late.results());
  context_->reporter.Connect(monitor_.get());
  if (front_end::MayHandle()) front_end::RecordSignals(monitor_.get());
  return Status();
}

Status Session::Attach(std::vector<ModuleEntry> modules, const std::vector<FoundParameter>& parameters, int optimizers,
                       std::vector<std::string> operators, std::function<void()> on_swap) {
  ++context_->generation;
  on_swap_ = std::move(on_swap);
  // Their hooks may have been moved to a place where no handle removes them.
  for (const auto& tap : modules_) tap->Detach();
  modules_.clear();
  DetachParameters();
  parameters_.clear();
  counts_reduced_.clear();
  groups_.clear();
  wanted_ = {};
  SiteIndex index;
  for (const ModuleEntry& entry : modules) {
    while (context_->roots.size() <= static_cast<size_t>(entry.chunk))
      context_->roots.push_back(std::make_unique<front_end::StepCounter>());
    const auto number = static_cast<uint32_t>(modules_.size());
    modules_.push_back(std::make_shared<ModuleTap>(context_, entry.chunk, entry.name.empty(), number));
  }
  for (int i = 0; i < std::max(optimizers, 1); ++i) groups_.push_back(std::make_unique<ParameterGroup>(context_));
  kept_ = Ref(PyList_New(0));
  std::set<int> cuda;
  PyObject* elsewhere = nullptr;  // a tensor that torch's operators will measure
  for (const FoundParameter& found : parameters) {
    const TensorView view = context_->reader.Read(found.tensor).view;
    index.parameters.push_back({found.chunk,
                                found.name,
                                view.dtype,
                                {view.sizes.begin(), view.sizes.begin() + view.ndim},
                                found.requires_grad,
                                found.as_written});
    if (view.device.kind == DeviceKind::kCuda && view.device.index >= 0) cuda.insert(view.device.index);
    if (IsElsewhere(view)) elsewhere = found.tensor;
    if (!kept_ || PyList_Append(kept_.ptr(), found.tensor) != 0) throw nanobind::python_error();
    parameters_.push_back(std::make_shared<ParameterTap>(context_, found.tensor, main_grad_));
    counts_reduced_.push_back(found.counts_reduced);
    // Parameters that no optimizer lists (it may have copies of its own, or train only some) are read with the first.
    groups_[static_cast<size_t>(std::max(found.optimizer, 0))]->Add(parameters_.back());
  }
  index.modules = std::move(modules);
  index.operators = std::move(operators);
  index.features = index.stacks = index.heatmaps = true;
  index.unwatchable_advice = "they only call the module inside, whose rows show the same tensors";
  if (elsewhere != nullptr) context_->late.Prepare(elsewhere);
  return WithoutGil([&] {
    for (const int device : cuda) monitor_->PrepareDevice({DeviceKind::kCuda, static_cast<int8_t>(device)});
    return monitor_->Attach(std::move(index), this);
  });
}

void Session::DetachParameters() {
  for (const auto& tap : parameters_) tap->Detach();
  kept_ = Ref();
}

// The core calls this on the thread that attaches, ends a step or closes; Attach has released the GIL.
void Session::Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept {
  const nanobind::gil_scoped_acquire acquired;
  CatchAndReport(*context_, "swapping hooks", [&] {
    ++context_->generation;
    (void)context_->TakeAnswered();
    context_->measured.Clear();
    context_->groups.clear();
    for (const auto& tap : modules_) tap->WantNothing();
    for (const auto& tap : parameters_) tap->WantNothing();
    requests_ = requests;
    ops_.clear();
    extras_.Clear();
    context_->structure = requests.structure ? std::make_shared<front_end::StructureRecorder>() : nullptr;
    NameModules();
    if (layout != nullptr) SetSites(*layout);
    NotifySwap();
  });
}

void Session::NameModules() {
  for (size_t i = 0; i < modules_.size(); ++i) {
    std::optional<std::string> name = i < requests_.module_names.size() ? requests_.module_names[i] : std::nullopt;
    if (name) name = std::to_string(modules_[i]->chunk()) + ":" + *name;
    modules_[i]->set_name_in_structure(std::move(name));
  }
}

void Session::NotifySwap() {
  ListWanted();
  if (!on_swap_) return;
  try {
    on_swap_();
  } catch (nanobind::python_error& error) {
    error.restore();  // as a Python error, which may be an interrupt for the trainer
  }
}

void Session::SetSites(const RecordLayout& layout) {
  for (const Stat stat : layout.stats) ops_.emplace_back(StatName(stat));
  context_->late.Swap(layout);
  if (!layout.groups.empty())
    for (const PlannedSite& site : layout.sites) context_->groups.push_back(site.group);
  for (size_t i = 0; i < layout.sites.size(); ++i) {
    const PlannedSite& site = layout.sites[i];
    if (site.owner == kNoOwner) continue;
    const auto id = static_cast<SiteId>(i);
    if (site.kind == SiteKind::kActv || site.kind == SiteKind::kActvGrad) {
      if (site.owner >= modules_.size()) continue;
      modules_[site.owner]->sites().Add(site, id);
      continue;
    }
    if (OwnerOf(site.kind) != SiteOwner::kParameter || HasHeatmap(site.kind)) {
      extras_.Want(site, id);
      continue;
    }
    if (site.owner >= parameters_.size()) continue;
    if (site.kind == SiteKind::kGradReduced && !counts_reduced_[site.owner]) continue;
    parameters_[site.owner]->Want(site.kind, id, layout.micro_step_in_grad_unreduced);
  }
}

// A root counts the micro-batches of its chunk, so it is wanted with any of its modules.
void Session::ListWanted() {
  wanted_ = {};
  const bool all = context_->structure != nullptr;
  std::set<int> chunks;  // chunks with a wanted module
  for (const auto& tap : modules_)
    if (tap->sites().any()) chunks.insert(tap->chunk());
  for (const auto& [kind, module] : extras_.features())
    if (module < modules_.size()) chunks.insert(modules_[module]->chunk());
  for (size_t i = 0; i < modules_.size(); ++i) {
    ModuleTap& tap = *modules_[i];
    if (all || tap.sites().any() || (tap.is_root() && chunks.count(tap.chunk()) > 0)) wanted_.modules.push_back(i);
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i]->rows().Wants(SiteKind::kGradUnreduced)) wanted_.gradients.push_back(i);
}

std::pair<std::vector<size_t>, std::vector<size_t>> Session::CalledAndUncalled() const {
  std::pair<std::vector<size_t>, std::vector<size_t>> found;
  for (size_t i = 0; i < modules_.size(); ++i)
    if (modules_[i]->sites().any()) (modules_[i]->was_called() ? found.first : found.second).push_back(i);
  return found;
}

// Sites of a group have an interval of their own: they may not have been due yet.
std::vector<KindYield> Session::Yield() const {
  std::vector<KindYield> kinds;
  for (int i = 0; i < kSiteKindCount; ++i) {
    KindYield yield{static_cast<SiteKind>(i), {}, {}, {}};
    for (size_t p = 0; p < parameters_.size(); ++p) {
      ParameterTap& tap = *parameters_[p];
      const SiteId site = tap.rows().site(yield.kind);
      if (site == kNoSite || (site < context_->groups.size() && context_->groups[site] != 0)) continue;
      (tap.saw(yield.kind) ? yield.seen : tap.saw_empty(yield.kind) ? yield.empty : yield.silent).push_back(p);
    }
    if (!yield.seen.empty() || !yield.empty.empty() || !yield.silent.empty()) kinds.push_back(std::move(yield));
  }
  return kinds;
}

void Session::EndStep() {
  if (context_->recorder == nullptr) return;
  context_->FinishCalls();
  if (Recorder* const recorder = context_->Collecting()) {
    for (const auto& tap : modules_) tap->EndStep();
    for (const auto& tap : parameters_) tap->EndStep(*recorder);
  }
  ++context_->step;
  context_->measured.Clear();
  SendLate();
  if (options_.store == nullptr) {
    monitor_->EndStep();
    return;
  }
  // The boundary may wait for a decision of the ranks, which a Python thread delivers.
  WithoutGil([&] { monitor_->EndStep(); });
}

void Session::SendLate() {
  if (Recorder* const recorder = context_->recorder) context_->late.Flush(*recorder);
}

bool Session::PassStep() {
  const uint64_t generation = context_->generation;
  EndStep();
  return context_->generation == generation && !collecting();
}

bool Session::PublishStructure() {
  if (context_->Collecting() == nullptr || context_->structure == nullptr || context_->structure->empty()) return false;
  for (const auto& call : context_->answered()) call->CompleteStructure();
  monitor_->PublishStructure(context_->structure->Modules());
  context_->structure.reset();
  NotifySwap();
  // The loop works in order: after the look at the config it has written the structure.
  (void)Refresh(std::chrono::seconds(5));
  return true;
}

Status Session::Amend(const Amendment& amendment) {
  if (context_->recorder == nullptr) return Status();
  return WithoutGil([&] { return monitor_->Amend(amendment); });
}

RefreshOutcome Session::Refresh(std::chrono::milliseconds timeout) {
  return WithoutGil([&] { return monitor_->Refresh(timeout); });
}

bool Session::Flush(std::chrono::milliseconds timeout) {
  SendLate();
  return WithoutGil([&] { return monitor_->Flush(timeout); });
}

std::vector<LatestValue> Session::Latest(SiteKind kind, std::chrono::milliseconds timeout) {
  if (kind == SiteKind::kActvGrad)
    for (const auto& call : context_->answered()) call->ReportUnwatched();
  SendLate();
  return WithoutGil([&] { return monitor_->Latest(kind, timeout); });
}

Status Session::Close(std::chrono::milliseconds timeout) {
  if (monitor_ == nullptr || context_->recorder == nullptr) return Status();
  SendLate();
  front_end::ForgetSignals(monitor_.get());
  const Status closed = WithoutGil([&] { return monitor_->Close(timeout); });
  context_->reporter.Connect(nullptr);
  Swap(nullptr, {});
  context_->recorder = nullptr;
  on_swap_ = nullptr;
  DetachParameters();
  return closed;
}

}  // namespace stepwatch::python
