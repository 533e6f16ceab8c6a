#include "front_ends/torch/module_tap.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "front_ends/torch/call_gradients.h"
#include "front_ends/torch/input_consumers.h"
#include "front_ends/torch/tensor_view.h"
#include "stepwatch/torch/forward_call.h"
#include "stepwatch/torch/tap_point.h"

namespace stepwatch {

using torch_front::CallGradients;
using torch_front::CallPosition;
using torch_front::Context;
using torch_front::DescribeTensor;
using torch_front::InputEdge;
using torch_front::kNoSite;
using torch_front::ModuleSites;

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
  Arm(false);
  point_->attached_ = nullptr;
  point_ = nullptr;
}

void ModuleTap::Arm(bool armed) noexcept {
  if (point_ != nullptr) point_->armed_.store(armed ? this : nullptr, std::memory_order_release);
}

CallPosition ModuleTap::NextCall() noexcept {
  const uint32_t step = context_->step.load(std::memory_order_relaxed);
  if (!was_called()) was_called_.store(true, std::memory_order_relaxed);
  if (is_root_) root_entries_->Add(step);
  uint32_t marks = context_->marks.Count(step);
  if (marks == 0) marks = root_entries_->Count(step);
  return calls_.Next(step, marks, context_->grad_acc_steps);
}

namespace {

uint16_t ElementOf(size_t index, size_t count) {
  return count == 1 ? kNoElement : static_cast<uint16_t>(index);
}

}  // namespace

namespace detail {

struct ForwardCall::Frame {
  Frame(ModuleTap& on, Context& with, Recorder& to, CallPosition position)
      : tap(on), context(with), recorder(to), at(position), structure(with.structure) {}
  // Anything left here was not enqueued: forward has thrown.
  ~Frame() {
    for (const Record& record : inputs) recorder.Discard(record);
  }

  Observation ObservationOf(SiteId site, uint16_t element) const { return {site, at.micro_step, element, at.call}; }
  bool wants_gradients(const ModuleSites& sites) const {
    return at::GradMode::is_enabled() && (sites.any_grad() || structure != nullptr);
  }

  void ReadInput(const at::Tensor& input, uint16_t element);
  void WatchInputs(const OutputList& outputs);
  void ObserveOutputs(const OutputList& outputs);
  void WatchOutputs(const OutputList& outputs);
  void DescribeCall(const OutputList& outputs);

  ModuleTap& tap;
  Context& context;
  Recorder& recorder;
  const CallPosition at;
  std::shared_ptr<torch_front::StructureRecorder> structure;
  PortStructure input_structure;
  std::vector<Record> inputs;  // measured before forward, enqueued after it
  std::shared_ptr<CallGradients> gradients;
  std::vector<InputEdge> edges;  // of inputs that require a gradient, from before forward
  uint64_t first_sequence = 0;   // of the nodes that the call makes
};

ForwardCall::ForwardCall(ModuleTap& tap, bool training) noexcept {
  Context& context = *tap.context_;
  Recorder* recorder = context.Collecting();
  if (recorder == nullptr || !training) return;
  // A call that is left out is not numbered either, so that rows of training keep their names.
  if (!at::GradMode::is_enabled() && !context.AdmitWithoutGradient()) return;
  const CallPosition at = tap.NextCall();
  if (!recorder->collects(tap.sites_.groups) && context.structure == nullptr) return;
  torch_front::Guarded(context, "watching a module",
                       [&] { frame_ = std::make_unique<Frame>(tap, context, *recorder, at); });
  if (frame_ != nullptr) recorder->NoteModule(tap.index_, true, at.micro_step);
}

ForwardCall::~ForwardCall() {
  if (frame_ != nullptr) frame_->recorder.NoteModule(frame_->tap.index_, false, frame_->at.micro_step);
}

void ForwardCall::Before(const InputList& inputs) noexcept {
  Frame& frame = *frame_;
  torch_front::Guarded(frame.context, "reading a module's input", [&] {
    const ModuleSites& sites = frame.tap.sites_;
    if (sites.input != kNoSite) frame.inputs.reserve(inputs.size());
    if (frame.wants_gradients(sites))
      frame.gradients = std::make_shared<CallGradients>(frame.tap.context_, sites, frame.at);
    for (size_t i = 0; i < inputs.size(); ++i) frame.ReadInput(*inputs[i], ElementOf(i, inputs.size()));
    frame.first_sequence = at::sequence_number::peek();
  });
}

void ForwardCall::Frame::ReadInput(const at::Tensor& input, uint16_t element) {
  const SiteId site = tap.sites_.input;
  if (site != kNoSite) {
    Record record;
    if (context.Measure(recorder, SiteKind::kActv, ObservationOf(site, element), input, &record))
      inputs.push_back(record);
  }
  if (structure != nullptr) input_structure.elements.push_back(DescribeTensor(input));
  if (gradients == nullptr) return;
  gradients->ExpectInput(element);
  if (input.requires_grad()) torch_front::AppendEdges(input, element, &edges);
}

void ForwardCall::After(const OutputList& outputs) noexcept {
  Frame& frame = *frame_;
  torch_front::Guarded(frame.context, "reading a module's output", [&] {
    const bool wants_outputs = frame.tap.sites_.output != kNoSite;
    if (!at::GradMode::is_enabled())
      frame.context.NoteRowsWithoutGradient(frame.inputs.size() + (wants_outputs ? outputs.tensors.size() : 0));
    for (const Record& record : frame.inputs) frame.recorder.Enqueue(record);
    frame.inputs.clear();
    if (wants_outputs) frame.ObserveOutputs(outputs);
    if (wants_outputs && outputs.tensors.empty() && !outputs.is_tuple) frame.context.SayUnreadable(frame.tap.key_);
    if (frame.structure != nullptr) frame.DescribeCall(outputs);
    if (frame.gradients == nullptr) return;
    frame.WatchInputs(outputs);
    frame.WatchOutputs(outputs);
  });
}

void ForwardCall::Frame::ObserveOutputs(const OutputList& outputs) {
  const SiteId site = tap.sites_.output;
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const Observation observation = ObservationOf(site, ElementOf(i, outputs.tensors.size()));
    if (outputs.tensors[i] != nullptr) {
      context.Observe(recorder, SiteKind::kActv, observation, *outputs.tensors[i]);
    } else {
      recorder.ObserveMissing(observation);
    }
  }
}

void ForwardCall::Frame::WatchInputs(const OutputList& outputs) {
  if (edges.empty()) return;
  std::vector<torch_front::NodePtr> roots;
  for (const at::Tensor* output : outputs.tensors) {
    if (output == nullptr || !output->requires_grad() || output->is_leaf()) continue;
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(*output);
    const auto returned = std::find_if(edges.begin(), edges.end(),
                                       [&edge](const InputEdge& each) { return !each.of_base && each.edge == edge; });
    if (returned != edges.end()) {
      torch_front::HangOnReturnedInput(*output, returned->element, gradients);
      edges.erase(returned);
    } else {
      roots.push_back(edge.function);
    }
  }
  for (const torch_front::Consumer& consumer : torch_front::FindConsumers(std::move(roots), edges, first_sequence))
    torch_front::HangOn(consumer, gradients);
  edges.clear();
}

// A leaf among the outputs is a parameter of some module: a hook on it would never be removed.
void ForwardCall::Frame::WatchOutputs(const OutputList& outputs) {
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const at::Tensor* output = outputs.tensors[i];
    if (output == nullptr || !output->requires_grad() || output->is_leaf()) continue;
    torch_front::HangOnOutput(*output, ElementOf(i, outputs.tensors.size()), gradients);
  }
}

void ForwardCall::Frame::DescribeCall(const OutputList& outputs) {
  input_structure.config = "list[" + std::to_string(input_structure.elements.size()) + "]";
  PortStructure output;
  output.config = outputs.is_tuple ? "tuple[" + std::to_string(outputs.tensors.size()) + "]" : "tensor";
  for (const at::Tensor* tensor : outputs.tensors)
    output.elements.push_back(tensor == nullptr ? kNoTensor : DescribeTensor(*tensor));
  if (outputs.tensors.empty()) output.config = kNoTensor;
  const int entry = structure->AddForward(tap.key_, std::move(input_structure), std::move(output));
  if (gradients == nullptr) return;
  gradients->Describe(structure, entry);
}

}  // namespace detail
}  // namespace stepwatch
