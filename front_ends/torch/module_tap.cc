#include "front_ends/torch/module_tap.h"

#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "front_ends/torch/input_gradient.h"
#include "front_ends/torch/tensor_view.h"
#include "stepwatch/torch/forward_call.h"
#include "stepwatch/torch/tap_point.h"

namespace stepwatch {

using torch_front::CallPosition;
using torch_front::Context;
using torch_front::DescribeTensor;
using torch_front::kNoSite;
using torch_front::PortStructure;

TapPoint::~TapPoint() {
  if (attached_ != nullptr) attached_->PointDied();
}

ModuleTap::ModuleTap(std::shared_ptr<Context> context, std::shared_ptr<torch_front::StepCounter> root_entries,
                     TapPoint* point, std::string key, bool is_root)
    : context_(std::move(context)),
      root_entries_(std::move(root_entries)),
      key_(std::move(key)),
      is_root_(is_root),
      point_(point) {
  point_->attached_ = this;
}

ModuleTap::~ModuleTap() {
  Detach();
}

bool ModuleTap::IsAttached(const TapPoint& point) {
  return point.attached_ != nullptr;
}

void ModuleTap::Detach() noexcept {
  if (point_ == nullptr) return;
  Arm(false);
  point_->attached_ = nullptr;
  point_ = nullptr;
}

void ModuleTap::Arm(bool armed) noexcept {
  if (point_ != nullptr) point_->armed_.store(armed ? this : nullptr, std::memory_order_release);
}

CallPosition ModuleTap::NextCall() noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  if (is_root_) root_entries_->Add(step);
  uint32_t marks = context_->marks.Count(step);
  if (marks == 0) marks = root_entries_->Count(step);
  return calls_.Next(step, marks, context_->grad_acc_steps);
}

namespace {

// What the backward hooks of one call share. Holds no tensor: a hook that held its own tensor would keep the graph
// alive for ever.
struct CallGradients {
  std::shared_ptr<Context> context;
  uint64_t generation = 0;
  ModuleSites sites;
  CallPosition at;
  std::vector<uint16_t> silent_inputs;  // elements that no gradient can reach
  std::atomic<bool> answered{false};
  std::shared_ptr<torch_front::StructureRecorder> structure;
  int structure_entry = -1;

  Observation ObservationOf(SiteId site, uint16_t element) const { return {site, at.micro_step, element, at.call}; }

  void Show(Monitor& monitor, SiteId site, uint16_t element, const at::Tensor& gradient) {
    if (site == kNoSite) return;
    if (gradient.defined()) {
      context->Observe(monitor, SiteKind::kActvGrad, ObservationOf(site, element), gradient);
    } else {
      monitor.ObserveMissing(ObservationOf(site, element));
    }
  }

  void OnInput(uint16_t element, const at::Tensor& gradient) noexcept {
    torch_front::Guarded(*context, "the hook of an input's gradient", [&] {
      Monitor* monitor = context->CollectingSince(generation);
      if (monitor == nullptr) return;
      Show(*monitor, sites.input_grad, element, gradient);
      if (structure_entry >= 0) structure->AddInputGradient(structure_entry, Index(element), DescribeTensor(gradient));
    });
  }

  void OnOutput(uint16_t element, const at::Tensor& gradient) noexcept {
    torch_front::Guarded(*context, "the hook of an output's gradient", [&] {
      Monitor* monitor = context->CollectingSince(generation);
      if (monitor == nullptr) return;
      Show(*monitor, sites.output_grad, element, gradient);
      if (structure_entry >= 0) structure->AddOutputGradient(structure_entry, Index(element), DescribeTensor(gradient));
      if (answered.exchange(true)) return;
      for (const uint16_t silent : silent_inputs) {
        Show(*monitor, sites.input_grad, silent, at::Tensor());
        if (structure_entry >= 0) structure->AddInputGradient(structure_entry, Index(silent), torch_front::kNoTensor);
      }
    });
  }

  static size_t Index(uint16_t element) { return element == kNoElement ? 0 : element; }
};

uint16_t ElementOf(size_t index, size_t count) {
  return count == 1 ? kNoElement : static_cast<uint16_t>(index);
}

}  // namespace

namespace detail {

struct ForwardCall::Frame {
  struct Aliased {
    at::Tensor alias;
    int64_t version;
    uint16_t element;
  };

  Frame(ModuleTap& on, Context& with, Monitor& to, CallPosition position, bool writes)
      : tap(on), context(with), monitor(to), at(position), writes_input(writes), structure(with.structure) {}
  // What is left here was not enqueued: forward has thrown.
  ~Frame() {
    for (const Record& record : inputs) monitor.Discard(record);
  }

  Observation ObservationOf(SiteId site, uint16_t element) const { return {site, at.micro_step, element, at.call}; }
  bool wants_gradients(const ModuleSites& sites) const {
    return at::GradMode::is_enabled() && (sites.any_grad() || structure != nullptr);
  }

  void WatchInput(Input& input, uint16_t element);
  void FinishInputs() noexcept;
  void ObserveOutputs(const OutputList& outputs);
  void WatchOutputs(const OutputList& outputs);
  void DescribeCall(const OutputList& outputs);

  ModuleTap& tap;
  Context& context;
  Monitor& monitor;
  const CallPosition at;
  const bool writes_input;
  std::shared_ptr<torch_front::StructureRecorder> structure;
  PortStructure input_structure;
  std::vector<Record> inputs;  // measured before forward, enqueued after it
  std::shared_ptr<CallGradients> gradients;
  std::vector<Aliased> aliased;
  std::vector<torch_front::Interception> intercepted;
};

ForwardCall::ForwardCall(ModuleTap& tap, bool training, bool writes_input) noexcept {
  Context& context = *tap.context_;
  Monitor* monitor = context.Collecting();
  if (monitor == nullptr || !training) return;
  const CallPosition at = tap.NextCall();
  if (!tap.sites_.any() && context.structure == nullptr) return;
  torch_front::Guarded(context, "watching a module", [&] {
    frame_ = std::make_unique<Frame>(tap, context, *monitor, at,
                                     writes_input || tap.writes_input_.load(std::memory_order_relaxed));
  });
}

ForwardCall::~ForwardCall() = default;

void ForwardCall::Before(InputList& inputs) noexcept {
  Frame& frame = *frame_;
  torch_front::Guarded(frame.context, "reading a module's input", [&] {
    const ModuleSites& sites = frame.tap.sites_;
    if (sites.input != kNoSite) frame.inputs.reserve(inputs.size());
    if (frame.wants_gradients(sites)) {
      frame.gradients = std::make_shared<CallGradients>();
      frame.gradients->context = frame.tap.context_;
      frame.gradients->generation = frame.context.generation.load(std::memory_order_relaxed);
      frame.gradients->sites = sites;
      frame.gradients->at = frame.at;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint16_t element = ElementOf(i, inputs.size());
      if (sites.input != kNoSite) {
        Record record;
        if (frame.context.Measure(frame.monitor, SiteKind::kActv, frame.ObservationOf(sites.input, element),
                                  *inputs[i].tensor, &record))
          frame.inputs.push_back(record);
      }
      if (frame.structure != nullptr) frame.input_structure.elements.push_back(DescribeTensor(*inputs[i].tensor));
      if (frame.gradients != nullptr) frame.WatchInput(inputs[i], element);
    }
  });
}

void ForwardCall::Frame::WatchInput(Input& input, uint16_t element) {
  const at::Tensor& tensor = *input.tensor;
  const bool reachable = tensor.requires_grad() && tensor.layout() == at::kStrided && input.replaceable;
  if (!reachable) {
    gradients->silent_inputs.push_back(element);
    return;
  }
  auto on_gradient = [shared = gradients, element](const at::Tensor& gradient) { shared->OnInput(element, gradient); };
  if (!writes_input) {
    at::Tensor alias = torch_front::AliasWithHook(tensor, std::move(on_gradient));
    aliased.push_back({alias, alias._version(), element});
    *input.tensor = std::move(alias);
    return;
  }
  torch_front::Interception interception(tensor, std::move(on_gradient));
  if (interception.armed()) {
    intercepted.push_back(std::move(interception));
  } else {
    gradients->silent_inputs.push_back(element);
  }
}

void ForwardCall::Frame::FinishInputs() noexcept {
  for (torch_front::Interception& interception : intercepted) interception.Restore();
  for (const Aliased& input : aliased) {
    if (input.alias._version() == input.version) continue;
    // This call's gradient has passed us by; the next call is intercepted.
    tap.writes_input_.store(true, std::memory_order_relaxed);
    gradients->silent_inputs.push_back(input.element);
  }
  aliased.clear();
}

void ForwardCall::After(const OutputList& outputs) noexcept {
  Frame& frame = *frame_;
  torch_front::Guarded(frame.context, "reading a module's output", [&] {
    frame.FinishInputs();
    for (const Record& record : frame.inputs) frame.monitor.Enqueue(record);
    frame.inputs.clear();
    if (frame.tap.sites_.output != kNoSite) frame.ObserveOutputs(outputs);
    if (frame.structure != nullptr) frame.DescribeCall(outputs);
    if (frame.gradients != nullptr) frame.WatchOutputs(outputs);
  });
}

void ForwardCall::Frame::ObserveOutputs(const OutputList& outputs) {
  const SiteId site = tap.sites_.output;
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const Observation observation = ObservationOf(site, ElementOf(i, outputs.tensors.size()));
    if (outputs.tensors[i] != nullptr) {
      context.Observe(monitor, SiteKind::kActv, observation, *outputs.tensors[i]);
    } else {
      monitor.ObserveMissing(observation);
    }
  }
}

// A leaf among the outputs is somebody's parameter: a hook on it would stay for ever.
void ForwardCall::Frame::WatchOutputs(const OutputList& outputs) {
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const at::Tensor* output = outputs.tensors[i];
    if (output == nullptr || !output->requires_grad() || output->is_leaf()) continue;
    const uint16_t element = ElementOf(i, outputs.tensors.size());
    output->register_hook(
        [shared = gradients, element](const at::Tensor& gradient) { shared->OnOutput(element, gradient); });
  }
}

void ForwardCall::Frame::DescribeCall(const OutputList& outputs) {
  input_structure.config = "list[" + std::to_string(input_structure.elements.size()) + "]";
  PortStructure output;
  output.config = outputs.is_tuple ? "tuple[" + std::to_string(outputs.tensors.size()) + "]" : "tensor";
  for (const at::Tensor* tensor : outputs.tensors)
    output.elements.push_back(tensor == nullptr ? torch_front::kNoTensor : DescribeTensor(*tensor));
  if (outputs.tensors.empty()) output.config = torch_front::kNoTensor;
  const int entry = structure->AddForward(tap.key_, std::move(input_structure), std::move(output));
  if (gradients == nullptr) return;
  gradients->structure = structure;
  gradients->structure_entry = entry;
}

}  // namespace detail
}  // namespace stepwatch
