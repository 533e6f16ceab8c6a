#include "stepwatch/torch/torch_monitor.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "front_ends/shared/exception_recorder.h"
#include "front_ends/shared/iteration_rule.h"
#include "front_ends/shared/registered_monitors.h"
#include "front_ends/shared/signal_recorder.h"
#include "front_ends/torch/attached_models.h"
#include "front_ends/torch/context.h"
#include "front_ends/torch/model_change.h"
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

  void Attach(const std::vector<torch::nn::Module*>& chunks, const std::vector<torch::optim::Optimizer*>& optimizers);
  void BeginMicroBatch() noexcept { context_->marks.Add(context_->step.load(std::memory_order_relaxed)); }
  void EndStepByHand() noexcept {
    if (rule_.EndByHand()) EndStep();
  }
  Monitor& core() noexcept { return *monitor_; }
  Status Close(std::chrono::milliseconds timeout);

  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override;

 private:
  void CheckModules(const std::vector<torch::nn::Module*>& chunks) const;
  void AttachOptimizer(torch::optim::Optimizer& optimizer);
  SiteIndex Rebuild();
  void Look() noexcept;
  void Follow();
  torch_front::ModelChange ChangeOf(const std::vector<at::Tensor>& parameters, const torch_front::Shares& shares) const;
  void LookBetweenSteps() noexcept;
  void PrepareDevices(const ModelIndex& index);
  void WarnIfNothingWatchable(const ModelIndex& index);
  bool EndsStep(size_t optimizer) noexcept;
  void EndStepAfterBackward() noexcept;
  void BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept;
  void AfterUpdate(size_t optimizer) noexcept;
  void EndStep() noexcept;
  void NameReplayStreams() noexcept;
  void PublishStructure() noexcept;

  const std::shared_ptr<Context> context_;
  std::unique_ptr<Monitor> monitor_;
  torch_front::AttachedModels attached_;
  SiteIndex sites_;  // as passed to the core
  torch_front::ModuleTaps module_taps_;
  torch_front::ParameterTaps parameter_taps_;
  torch_front::ChangeReporter changes_;
  size_t strangers_ = 0;     // tensors of optimizers that no attached module registers
  bool has_looked_ = false;  // in this step
  bool look_between_steps_ = false;
  bool attach_between_steps_ = false;
  std::set<int> cuda_devices_;              // of the parameters
  front_end::IterationRule rule_;           // its members are the positions of optimizers
  StepPart part_before_ = StepPart::kRest;  // before the update
  const torch::optim::Optimizer* const clock_;
  bool warned_unwatchable_ = false;
  bool closed_ = false;
  const int exceptions_before_ = std::uncaught_exceptions();
};

TorchMonitor::Impl::Impl(Options options)
    : context_(MakeContext(options)),
      module_taps_(context_),
      parameter_taps_(context_),
      changes_(&context_->reporter),
      clock_(options.clock) {
  if (options.ends_step_by_hand) rule_.LeaveToProgram();
  if (options.parallel_for == nullptr) options.parallel_for = torch_front::RunOnTorchThreads;
  const std::string path = options.config_path;
  Result<std::unique_ptr<Monitor>> created = Monitor::Create(std::move(options));
  if (!created.ok()) throw std::invalid_argument("stepwatch: " + path + ": " + created.status().ToString());
  monitor_ = std::move(created).value();
  context_->recorder.store(&monitor_->recorder(), std::memory_order_release);
  context_->reporter.Connect(monitor_.get());
  context_->inner_parts.Open(monitor_.get());
  if (!front_end::MayHandle()) return;
  front_end::RecordSignals(monitor_.get());
  front_end::RecordExceptions(monitor_.get());
}

// An exception that is caught outside destroys the monitor with its scope, and the training ends as well.
TorchMonitor::Impl::~Impl() {
  if (std::uncaught_exceptions() > exceptions_before_) monitor_->ReportEnd(RunEnd::kError);
  (void)Close(std::chrono::seconds(5));
}

void TorchMonitor::Impl::Attach(const std::vector<torch::nn::Module*>& chunks,
                                const std::vector<torch::optim::Optimizer*>& optimizers) {
  if (closed_) throw std::invalid_argument("stepwatch: Attach after Close");
  CheckModules(chunks);
  const size_t known = attached_.optimizer_count();
  for (torch::optim::Optimizer* optimizer : optimizers) {
    if (optimizer == nullptr) throw std::invalid_argument("stepwatch: a null optimizer cannot be attached");
    AttachOptimizer(*optimizer);
  }
  if (attached_.optimizer_count() > known)
    for (const size_t idle : attached_.LetGoReplaced(known)) rule_.LeaveOut(static_cast<uint32_t>(idle));
  const std::vector<bool> take_turns = attached_.TakeTurns();
  for (size_t i = 0; i < take_turns.size(); ++i) rule_.SetTakesTurns(static_cast<uint32_t>(i), take_turns[i]);
  for (torch::nn::Module* chunk : chunks) attached_.AddModel(*chunk);
  attached_.ForgetLostModels();
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
      if (!module_taps_.IsOn(*point))
        throw std::invalid_argument("stepwatch: module \"" + index.sites.modules[i].name +
                                    "\" is watched by another TorchMonitor; close that one first");
    }
  }
}

void TorchMonitor::Impl::AttachOptimizer(torch::optim::Optimizer& optimizer) {
  OptimizerPoint* const point = torch_front::PointOf(optimizer);
  if (point == nullptr)
    throw std::invalid_argument(
        "stepwatch: this optimizer cannot be watched; declare it as stepwatch::Watched<> of its class, such as "
        "stepwatch::Watched<torch::optim::AdamW>, or attach the model alone and call EndStep() after every update");
  if (attached_.Has(*point)) return;
  if (OptimizerTap::IsAttached(*point))
    throw std::invalid_argument("stepwatch: this optimizer is watched by another TorchMonitor; close that one first");
  const size_t position = attached_.optimizer_count();
  OptimizerEvents events;
  events.before = [this, position](torch::optim::Optimizer& object) { BeforeUpdate(position, object); };
  events.again = [this, position] {
    (void)monitor_->EnterPart(part_before_);
    parameter_taps_.RepeatClosure(position);
  };
  events.resumes = [this] { (void)monitor_->EnterPart(StepPart::kOptimizer); };
  events.after = [this, position] { AfterUpdate(position); };
  events.abandoned = [this, position] {
    (void)monitor_->EnterPart(part_before_);
    parameter_taps_.AbandonUpdate(position);
  };
  attached_.AddOptimizer(point, std::move(events));
  const front_end::IterationRule::Member member = rule_.Add();
  if (&optimizer == clock_) rule_.NameClock(member);
}

// Puts new taps on all attached and living objects. Between steps.
SiteIndex TorchMonitor::Impl::Rebuild() {
  context_->generation.fetch_add(1, std::memory_order_release);
  attach_between_steps_ = false;
  ModelIndex index = attached_.Read();
  module_taps_.Build(index);
  parameter_taps_.Build(index.parameters, attached_.SharesOf(index.parameters), attached_.AreOwn());
  strangers_ = attached_.CountStrangers(index.parameters);
  PrepareDevices(index);
  WarnIfNothingWatchable(index);
  index.sites.unwatchable_advice =
      "to see them, take their type from namespace stepwatch::nn or wrap it in stepwatch::Watched<>";
  sites_ = index.sites;
  return std::move(index.sites);
}

// Before tensors are read around an update: uses the current tensors of the model, not earlier ones.
void TorchMonitor::Impl::Look() noexcept {
  has_looked_ = true;
  CatchAndReport(*context_, "looking for changes of the model", [this] {
    if (!attached_.IsAsRead()) Follow();
    if (attached_.HasLostModel()) changes_.ReportModelGone();
  });
}

// Parts with the same names replace the old ones at once. New names need another plan, which begins between steps.
void TorchMonitor::Impl::Follow() {
  const ModelIndex fresh = attached_.Read();
  const torch_front::IndexMatch match = torch_front::MatchIndexes(sites_, fresh.sites);
  const torch_front::ModelPlaces places = torch_front::PlacesOf(match, fresh);
  const torch_front::Shares shares = attached_.SharesOf(places.parameters);
  torch_front::ModelChange change = ChangeOf(places.parameters, shares);
  change.gone = torch_front::GoneNames(sites_, match);
  change.fresh = torch_front::FreshNames(fresh.sites, match);
  const size_t strangers = attached_.CountStrangers(fresh.parameters);
  change.strangers = strangers > strangers_ ? strangers - strangers_ : 0;
  strangers_ = strangers;
  module_taps_.Rebind(places.points);
  parameter_taps_.Rebind(places.parameters, shares);
  PrepareDevices(fresh);
  if (!match.is_same) attach_between_steps_ = look_between_steps_ = true;
  changes_.Report(change);
}

torch_front::ModelChange TorchMonitor::Impl::ChangeOf(const std::vector<at::Tensor>& parameters,
                                                      const torch_front::Shares& shares) const {
  torch_front::ModelChange change;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].defined()) continue;
    const std::vector<size_t>& before = parameter_taps_.shares()[i];
    const bool has_left = shares[i].empty() && std::any_of(before.begin(), before.end(), [this](size_t optimizer) {
                            return attached_.IsOptimizerAlive(optimizer);
                          });
    if (!parameter_taps_.IsBound(i, parameters[i])) change.replaced.push_back(sites_.parameters[i].name);
    if (has_left) change.left.push_back(sites_.parameters[i].name);
    change.regrouped += !shares[i].empty() && shares[i] != before;
  }
  return change;
}

// A new plan may be for a model that has changed meanwhile: the model is not checked while no step is collected.
void TorchMonitor::Impl::LookBetweenSteps() noexcept {
  has_looked_ = false;
  if (!std::exchange(look_between_steps_, false)) return;
  Look();
  has_looked_ = false;
  if (!attach_between_steps_) return;
  CatchAndReport(*context_, "reading a model that has changed", [this] {
    const Status attached = monitor_->Attach(Rebuild(), this);
    if (!attached.ok()) context_->reporter.Warn("the model has changed and cannot be watched: " + attached.ToString());
  });
}

void TorchMonitor::Impl::PrepareDevices(const ModelIndex& index) {
  cuda_devices_.clear();
  for (const at::Tensor& parameter : index.parameters)
    if (parameter.device().is_cuda()) cuda_devices_.insert(parameter.device().index());
  context_->inner_parts.SetModel(!index.parameters.empty() &&
                                 std::all_of(index.parameters.begin(), index.parameters.end(),
                                             [](const at::Tensor& each) { return each.device().is_cpu(); }));
  for (const int device : cuda_devices_) monitor_->PrepareDevice({DeviceKind::kCuda, static_cast<int8_t>(device)});
}

void TorchMonitor::Impl::WarnIfNothingWatchable(const ModelIndex& index) {
  const bool any =
      std::any_of(index.points.begin(), index.points.end(), [](TapPoint* point) { return point != nullptr; });
  if (any || std::exchange(warned_unwatchable_, true)) return;
  context_->reporter.Warn(
      "no module of the model is watched, so activations have no rows (gradients, weights and optimizer state do): "
      "write "
      "`namespace nn = stepwatch::nn;` instead of torch::nn where the model is defined, or stepwatch::Watched<...>");
}

void TorchMonitor::Impl::Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept {
  context_->generation.fetch_add(1, std::memory_order_release);
  module_taps_.Swap(layout);
  parameter_taps_.Swap(layout);
  look_between_steps_ = layout != nullptr;
  context_->structure.reset();
  if (requests.structure)
    CatchAndReport(*context_, "preparing print_struct",
                   [this] { context_->structure = std::make_shared<torch_front::StructureRecorder>(); });
  module_taps_.Arm();
}

void TorchMonitor::Impl::BeforeUpdate(size_t optimizer, torch::optim::Optimizer& object) noexcept {
  if (context_->Collecting() != nullptr) Look();
  parameter_taps_.BeforeUpdate(optimizer, object);
  const StepPart before = monitor_->EnterPart(StepPart::kOptimizer);  // last: reading tensors is no part of the update
  if (before != StepPart::kOptimizer) part_before_ = before;          // else an update that another one contains
}

void TorchMonitor::Impl::AfterUpdate(size_t optimizer) noexcept {
  (void)monitor_->EnterPart(part_before_);
  attached_.NoteStep(optimizer);
  parameter_taps_.AfterUpdate(optimizer);
  if (EndsStep(optimizer)) EndStepAfterBackward();
}

bool TorchMonitor::Impl::EndsStep(size_t optimizer) noexcept {
  bool ends = false;
  CatchAndReport(*context_, "following the updates of optimizers", [&] {
    for (size_t i = 0; i < attached_.optimizer_count(); ++i)
      if (!attached_.IsOptimizerAlive(i)) rule_.Remove(static_cast<uint32_t>(i));
    ends = rule_.Updated(static_cast<uint32_t>(optimizer));
    for (const uint32_t member : rule_.TakeLeftOut())
      context_->reporter.Warn("optimizer " + std::to_string(member + 1) + " of " +
                              std::to_string(attached_.optimizer_count()) +
                              " does not step while others do: steps end without it until it steps again");
  });
  return ends;
}

// Optimizers that step in the backward pass: gradients that the pass still computes belong to this step.
void TorchMonitor::Impl::EndStepAfterBackward() noexcept {
  if (attached_.optimizer_count() < 2 || torch::autograd::get_current_graph_task_id() == -1) return EndStep();
  CatchAndReport(*context_, "waiting for the end of a backward pass", [this] {
    torch::autograd::Engine::get_default_engine().queue_callback([this] {
      (void)monitor_->EnterPart(StepPart::kRest);  // the pass is over, though its call has not returned
      EndStep();
    });
  });
}

void TorchMonitor::Impl::EndStep() noexcept {
  if (closed_) return;
  if (!has_looked_ && context_->Collecting() != nullptr) Look();
  if (context_->Collecting() != nullptr)
    CatchAndReport(*context_, "looking for modules that do not run", [this] { module_taps_.LookForUncalled(); });
  parameter_taps_.BeforeEndOfStep();
  context_->FinishCalls();
  if (context_->structure != nullptr && context_->Collecting() != nullptr) PublishStructure();
  context_->step.fetch_add(1, std::memory_order_relaxed);
  NameReplayStreams();
  monitor_->EndStep();
  LookBetweenSteps();
  context_->inner_parts.BeginStep(context_->Collecting() != nullptr);
}

// A graph was replayed on the current stream; during capture that is the stream of the capture.
void TorchMonitor::Impl::NameReplayStreams() noexcept {
  if (cuda_devices_.empty()) return;
  CatchAndReport(*context_, "finding the current stream", [this] {
    for (const int device : cuda_devices_)
      monitor_->graphs().SetReplayStream({DeviceKind::kCuda, static_cast<int8_t>(device)},
                                         torch_front::CurrentStream(device));
  });
}

void TorchMonitor::Impl::PublishStructure() noexcept {
  CatchAndReport(*context_, "print_struct", [this] { monitor_->PublishStructure(context_->structure->Modules()); });
  context_->structure.reset();
  module_taps_.Arm();
}

Status TorchMonitor::Impl::Close(std::chrono::milliseconds timeout) {
  if (closed_) return Status();
  closed_ = true;
  context_->inner_parts.Close();
  attached_.ClearOptimizers();
  if (const uint64_t calls = context_->calls_left_out(); calls > 0)
    context_->reporter.Warn(std::to_string(calls) + " forward calls of modules without gradient have no rows");
  front_end::ForgetSignals(monitor_.get());
  front_end::ForgetExceptions(monitor_.get());
  const Status closed = monitor_ != nullptr ? monitor_->Close(timeout) : Status();
  context_->reporter.Connect(nullptr);
  Swap(nullptr, {});
  context_->recorder.store(nullptr, std::memory_order_release);
  module_taps_.Clear();
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
  impl_->Attach({&model}, {&optimizer});
}
void TorchMonitor::Attach(torch::nn::Module& model, const std::vector<torch::optim::Optimizer*>& optimizers) {
  impl_->Attach({&model}, optimizers);
}
void TorchMonitor::Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer& optimizer) {
  impl_->Attach(chunks, {&optimizer});
}
void TorchMonitor::Attach(const std::vector<torch::nn::Module*>& chunks,
                          const std::vector<torch::optim::Optimizer*>& optimizers) {
  impl_->Attach(chunks, optimizers);
}
void TorchMonitor::Attach(torch::nn::Module& model) {
  impl_->Attach({&model}, {});
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
