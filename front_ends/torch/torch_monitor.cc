#include "stepwatch/torch/torch_monitor.h"

#include <algorithm>
#include <exception>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "front_ends/shared/exception_recorder.h"
#include "front_ends/shared/signal_recorder.h"
#include "front_ends/shared/told_monitors.h"
#include "front_ends/torch/context.h"
#include "front_ends/torch/model_index.h"
#include "front_ends/torch/module_tap.h"
#include "front_ends/torch/optimizer_tap.h"
#include "front_ends/torch/parameter_taps.h"
#include "front_ends/torch/tensor_view.h"
#include "front_ends/torch/torch_parallel_for.h"
#include "stepwatch/graph_recorder.h"
#include "stepwatch/hook_table.h"

namespace stepwatch {

using torch_front::Context;
using torch_front::ModelIndex;

namespace {

std::shared_ptr<Context> MakeContext(const Options& options) {
  auto context = std::make_shared<Context>();
  context->grad_acc_steps = std::max(options.grad_acc_steps, 1);
  return context;
}

}  // namespace

class TorchMonitor::Impl final : public HookTable {
 public:
  explicit Impl(Options options);
  ~Impl() override;

  void Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer* optimizer);
  void BeginMicroBatch() noexcept { context_->marks.Add(context_->step.load(std::memory_order_relaxed)); }
  void EndStepByHand() noexcept {
    manual_clock_ = true;
    EndStep();
  }
  Monitor& core() noexcept { return *monitor_; }
  Status Close(std::chrono::milliseconds timeout);

  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override;

 private:
  struct Chunk {
    torch::nn::Module* root;
    std::weak_ptr<torch::nn::Module> owner;
    bool owned;  // false: no shared_ptr holds this root, and it must live until the last Attach

    bool alive() const { return !owned || !owner.expired(); }
  };

  void CheckModules(const std::vector<torch::nn::Module*>& chunks) const;
  void AttachOptimizer(torch::optim::Optimizer& optimizer);
  SiteIndex Rebuild();
  void BuildModuleTaps(const ModelIndex& index);
  void BuildParameterTaps(const ModelIndex& index);
  void PrepareDevices(const ModelIndex& index);
  void SayIfNothingWatchable(const ModelIndex& index);
  void ArmModules() noexcept;
  bool IsClock(size_t optimizer) const noexcept;
  void AfterUpdate(size_t optimizer) noexcept;
  void EndStep() noexcept;
  void NameReplayStreams() noexcept;
  void PublishStructure() noexcept;

  const std::shared_ptr<Context> context_;
  std::unique_ptr<Monitor> monitor_;
  std::vector<Chunk> chunks_;
  std::vector<std::unique_ptr<OptimizerTap>> optimizers_;
  std::vector<std::unique_ptr<ModuleTap>> module_taps_;  // as SiteIndex::modules; null: not Watched
  std::vector<int> module_chunks_;                       // of each module
  torch_front::ParameterTaps parameter_taps_;
  std::set<int> cuda_devices_;  // of the parameters
  bool manual_clock_ = false;
  bool said_nothing_watchable_ = false;
  bool closed_ = false;
  const int exceptions_before_ = std::uncaught_exceptions();
};

TorchMonitor::Impl::Impl(Options options) : context_(MakeContext(options)), parameter_taps_(context_) {
  if (options.parallel_for == nullptr) options.parallel_for = torch_front::RunOnTorchThreads;
  const std::string path = options.config_path;
  Result<std::unique_ptr<Monitor>> created = Monitor::Create(std::move(options));
  if (!created.ok()) throw std::invalid_argument("stepwatch: " + path + ": " + created.status().ToString());
  monitor_ = std::move(created).value();
  context_->recorder.store(&monitor_->recorder(), std::memory_order_release);
  context_->reporter.Connect(monitor_.get());
  if (!front_end::MayHandle()) return;
  front_end::RecordSignals(monitor_.get());
  front_end::RecordExceptions(monitor_.get());
}

// An exception that somebody catches outside ends the monitor with its scope, and the training with it.
TorchMonitor::Impl::~Impl() {
  if (std::uncaught_exceptions() > exceptions_before_) monitor_->ReportEnd(RunEnd::kError);
  (void)Close(std::chrono::seconds(5));
}

void TorchMonitor::Impl::Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer* optimizer) {
  if (closed_) throw std::invalid_argument("stepwatch: Attach after Close");
  CheckModules(chunks);
  if (optimizer != nullptr) AttachOptimizer(*optimizer);
  for (torch::nn::Module* chunk : chunks) {
    const auto known = std::find_if(chunks_.begin(), chunks_.end(),
                                    [&](const Chunk& other) { return other.root == chunk && other.alive(); });
    if (known != chunks_.end()) continue;
    const std::weak_ptr<torch::nn::Module> owner = torch_front::OwnerOf(*chunk);
    chunks_.push_back({chunk, owner, !owner.expired()});
  }
  const Status attached = monitor_->Attach(Rebuild(), this);
  if (!attached.ok()) throw std::invalid_argument("stepwatch: " + attached.ToString());
}

void TorchMonitor::Impl::CheckModules(const std::vector<torch::nn::Module*>& chunks) const {
  for (torch::nn::Module* chunk : chunks) {
    if (chunk == nullptr) throw std::invalid_argument("stepwatch: a null module cannot be attached");
    ModelIndex index;
    torch_front::AppendModel(*chunk, 0, &index);
    for (size_t i = 0; i < index.points.size(); ++i) {
      const TapPoint* point = index.points[i];
      if (point == nullptr || !ModuleTap::IsAttached(*point)) continue;
      const bool ours = std::any_of(module_taps_.begin(), module_taps_.end(),
                                    [&](const auto& tap) { return tap != nullptr && tap->IsOn(*point); });
      if (!ours)
        throw std::invalid_argument("stepwatch: module \"" + index.sites.modules[i].name +
                                    "\" is watched by another TorchMonitor; close that one first");
    }
  }
}

void TorchMonitor::Impl::AttachOptimizer(torch::optim::Optimizer& optimizer) {
  OptimizerPoint* const point = torch_front::PointOf(optimizer);
  if (point == nullptr)
    throw std::invalid_argument(
        "stepwatch: this optimizer cannot be watched; declare it as stepwatch::Watched<torch::optim::AdamW> (or "
        "whichever it is), or attach the model alone and call EndStep() after every update");
  for (const auto& known : optimizers_)
    if (known->point() == point) return;
  if (OptimizerTap::IsAttached(*point))
    throw std::invalid_argument("stepwatch: this optimizer is watched by another TorchMonitor; close that one first");
  const size_t position = optimizers_.size();
  OptimizerEvents events;
  events.before = [this, position](torch::optim::Optimizer& object) { parameter_taps_.BeforeUpdate(position, object); };
  events.after = [this, position] { AfterUpdate(position); };
  optimizers_.push_back(std::make_unique<OptimizerTap>(point, std::move(events)));
}

// Puts fresh taps on everything that is attached and alive. Between steps.
SiteIndex TorchMonitor::Impl::Rebuild() {
  context_->generation.fetch_add(1, std::memory_order_release);
  ModelIndex index;
  for (size_t i = 0; i < chunks_.size(); ++i)
    if (chunks_[i].alive()) torch_front::AppendModel(*chunks_[i].root, static_cast<int>(i), &index);
  BuildModuleTaps(index);
  BuildParameterTaps(index);
  PrepareDevices(index);
  SayIfNothingWatchable(index);
  index.sites.unwatchable_advice =
      "to see them, take their type from namespace stepwatch::nn or wrap it in stepwatch::Watched<>";
  return std::move(index.sites);
}

void TorchMonitor::Impl::BuildModuleTaps(const ModelIndex& index) {
  module_taps_.clear();
  module_chunks_.clear();
  std::shared_ptr<torch_front::StepCounter> root_entries;
  for (size_t i = 0; i < index.points.size(); ++i) {
    const ModuleEntry& entry = index.sites.modules[i];
    const bool is_root = entry.name.empty();
    if (is_root) root_entries = std::make_shared<torch_front::StepCounter>();
    module_chunks_.push_back(entry.chunk);
    module_taps_.push_back(nullptr);
    // A module that two chunks share belongs to the first.
    if (index.points[i] == nullptr || ModuleTap::IsAttached(*index.points[i])) continue;
    const std::string key = std::to_string(entry.chunk) + ":" + entry.name;
    module_taps_.back() =
        std::make_unique<ModuleTap>(context_, root_entries, index.points[i], key, is_root, static_cast<uint32_t>(i));
  }
}

void TorchMonitor::Impl::BuildParameterTaps(const ModelIndex& index) {
  std::unordered_map<const void*, int> optimizer_of;
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    if (optimizers_[i]->point() == nullptr) continue;  // destroyed
    for (const void* parameter : torch_front::ParametersOf(*optimizers_[i]->point()))
      optimizer_of.emplace(parameter, static_cast<int>(i));
  }
  std::vector<int> optimizers;
  for (const at::Tensor& parameter : index.parameters) {
    const auto found = optimizer_of.find(parameter.unsafeGetTensorImpl());
    optimizers.push_back(found == optimizer_of.end() ? -1 : found->second);
  }
  parameter_taps_.Build(index.parameters, optimizers, optimizers_.size());
}

void TorchMonitor::Impl::PrepareDevices(const ModelIndex& index) {
  cuda_devices_.clear();
  for (const at::Tensor& parameter : index.parameters)
    if (parameter.device().is_cuda()) cuda_devices_.insert(parameter.device().index());
  for (const int device : cuda_devices_) monitor_->PrepareDevice({DeviceKind::kCuda, static_cast<int8_t>(device)});
}

void TorchMonitor::Impl::SayIfNothingWatchable(const ModelIndex& index) {
  const bool any =
      std::any_of(index.points.begin(), index.points.end(), [](TapPoint* point) { return point != nullptr; });
  if (any || std::exchange(said_nothing_watchable_, true)) return;
  context_->reporter.Warn(
      "no module of the model is watched, so activations give no rows (gradients, weights and optimizer state do): "
      "write "
      "`namespace nn = stepwatch::nn;` instead of torch::nn where the model is defined, or stepwatch::Watched<...>");
}

void TorchMonitor::Impl::Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept {
  context_->generation.fetch_add(1, std::memory_order_release);
  for (auto& tap : module_taps_)
    if (tap != nullptr) tap->sites() = ModuleSites();
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    const bool is_actv = site.kind == SiteKind::kActv;
    if (!is_actv && site.kind != SiteKind::kActvGrad) continue;
    if (site.owner >= module_taps_.size() || module_taps_[site.owner] == nullptr) continue;
    ModuleSites& sites = module_taps_[site.owner]->sites();
    const bool is_input = site.port == Port::kInput;
    SiteId& id = is_actv ? (is_input ? sites.input : sites.output) : (is_input ? sites.input_grad : sites.output_grad);
    id = static_cast<SiteId>(i);
    sites.groups |= GroupSet{1} << site.group;
  }
  parameter_taps_.Swap(layout);
  context_->structure.reset();
  if (requests.structure)
    torch_front::Guarded(*context_, "preparing print_struct",
                         [this] { context_->structure = std::make_shared<torch_front::StructureRecorder>(); });
  ArmModules();
}

// A root counts micro-batches for its chunk, so it is armed with any of its modules. It comes first in its chunk.
void TorchMonitor::Impl::ArmModules() noexcept {
  const bool all = context_->structure != nullptr;
  ModuleTap* root = nullptr;
  for (size_t i = 0; i < module_taps_.size(); ++i) {
    if (i == 0 || module_chunks_[i] != module_chunks_[i - 1]) root = nullptr;
    ModuleTap* tap = module_taps_[i].get();
    if (tap == nullptr) continue;
    if (tap->is_root()) root = tap;
    const bool wanted = all || tap->sites().any();
    tap->Arm(wanted);
    if (wanted && root != nullptr) root->Arm(true);
  }
}

bool TorchMonitor::Impl::IsClock(size_t optimizer) const noexcept {
  for (size_t i = 0; i < optimizer; ++i)
    if (optimizers_[i]->point() != nullptr) return false;
  return !manual_clock_;
}

void TorchMonitor::Impl::AfterUpdate(size_t optimizer) noexcept {
  parameter_taps_.AfterUpdate(optimizer);
  if (IsClock(optimizer)) EndStep();
}

void TorchMonitor::Impl::EndStep() noexcept {
  if (closed_) return;
  parameter_taps_.BeforeEndOfStep();
  context_->FinishCalls();
  if (context_->structure != nullptr && context_->Collecting() != nullptr) PublishStructure();
  context_->step.fetch_add(1, std::memory_order_relaxed);
  NameReplayStreams();
  monitor_->EndStep();
}

// A graph was replayed on the stream that is current now; while it is captured, that is the capture's own.
void TorchMonitor::Impl::NameReplayStreams() noexcept {
  if (cuda_devices_.empty()) return;
  torch_front::Guarded(*context_, "asking for the current stream", [this] {
    for (const int device : cuda_devices_)
      monitor_->graphs().SetReplayStream({DeviceKind::kCuda, static_cast<int8_t>(device)},
                                         torch_front::CurrentStream(device));
  });
}

void TorchMonitor::Impl::PublishStructure() noexcept {
  torch_front::Guarded(*context_, "print_struct",
                       [this] { monitor_->PublishStructure(context_->structure->Modules()); });
  context_->structure.reset();
  ArmModules();
}

Status TorchMonitor::Impl::Close(std::chrono::milliseconds timeout) {
  if (closed_) return Status();
  closed_ = true;
  optimizers_.clear();
  front_end::ForgetSignals(monitor_.get());
  front_end::ForgetExceptions(monitor_.get());
  const Status closed = monitor_ != nullptr ? monitor_->Close(timeout) : Status();
  context_->reporter.Connect(nullptr);
  Swap(nullptr, {});
  context_->recorder.store(nullptr, std::memory_order_release);
  module_taps_.clear();
  return closed;
}

namespace {

Options OptionsFor(const std::string& config_path) {
  Options options;
  options.config_path = config_path;
  return options;
}

}  // namespace

TorchMonitor::TorchMonitor(const std::string& config_path) : TorchMonitor(OptionsFor(config_path)) {}
TorchMonitor::TorchMonitor(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
TorchMonitor::~TorchMonitor() = default;

void TorchMonitor::Attach(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  impl_->Attach({&model}, &optimizer);
}
void TorchMonitor::Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer& optimizer) {
  impl_->Attach(chunks, &optimizer);
}
void TorchMonitor::Attach(torch::nn::Module& model) {
  impl_->Attach({&model}, nullptr);
}
void TorchMonitor::BeginMicroBatch() noexcept {
  impl_->BeginMicroBatch();
}
void TorchMonitor::EndStep() noexcept {
  impl_->EndStepByHand();
}
RefreshOutcome TorchMonitor::Refresh(std::chrono::milliseconds timeout) {
  return impl_->core().Refresh(timeout);
}
Monitor& TorchMonitor::core() noexcept {
  return impl_->core();
}
Status TorchMonitor::Close(std::chrono::milliseconds timeout) {
  return impl_->Close(timeout);
}

}  // namespace stepwatch
