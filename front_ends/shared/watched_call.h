// One call of a watched module: the rows of its inputs and outputs, and the hooks that deliver their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/shared/call_graph.h"
#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/structure.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

template <class Graph>
class WatchedCall {
 public:
  using Tensors = typename Graph::Tensors;
  using Context = typename Tensors::Context;

  WatchedCall(std::shared_ptr<Context> context, Recorder* recorder, const ModuleSites& sites, CallPosition at)
      : context_(std::move(context)), recorder_(recorder), sites_(sites), at_(at), structure_(context_->structure) {}
  WatchedCall(WatchedCall&&) noexcept = default;
  WatchedCall& operator=(WatchedCall&&) = delete;
  // Records of inputs that are left were not enqueued: the module has thrown.
  ~WatchedCall() {
    for (const Record& record : inputs_) recorder_->Discard(record);
  }

  Recorder& recorder() const { return *recorder_; }
  int32_t micro_step() const { return at_.micro_step; }
  bool reads_inputs() const { return sites_.input != kNoSite || structure_ != nullptr; }
  bool wants_gradients() const { return sites_.any_grad() || structure_ != nullptr; }
  bool wants_structure() const { return structure_ != nullptr; }
  // Rows of the inputs, and of so many outputs.
  size_t CountRows(size_t outputs) const { return inputs_.size() + (sites_.output != kNoSite ? outputs : 0); }

  // --- before the module runs ---

  void ReserveInputs(size_t count) {
    if (sites_.input != kNoSite) inputs_.reserve(count);
  }
  // Measures the input, whose row is enqueued once the module has run.
  template <class Tensor>
  void ReadInput(const Tensor& input, uint16_t element) {
    if (structure_ != nullptr) input_structure_.elements.push_back(Tensors::Describe(*context_, input));
    if (sites_.input == kNoSite) return;
    Record record;
    if (context_->Measure(*recorder_, SiteKind::kActv, ObservationOf(sites_.input, element), input, &record))
      inputs_.push_back(record);
  }
  // The gradients are wanted. Each input must be expected, and added to the graph.
  CallGraph<Graph>& WatchGradients(Graph graph) {
    return graph_.emplace(std::move(graph), std::make_shared<CallGradients<Tensors>>(context_, sites_, at_), sites_,
                          /*all=*/structure_ != nullptr);
  }

  // --- after it; `outputs`: each has `element`, is_tensor() and tensor() ---

  template <class Outputs>
  void EnqueueRows(const Outputs& outputs) {
    for (const Record& record : std::exchange(inputs_, {})) recorder_->Enqueue(record);
    if (sites_.output == kNoSite) return;
    for (const auto& each : outputs) {
      const Observation at = ObservationOf(sites_.output, each.element);
      if (each.is_tensor()) {
        context_->Observe(*recorder_, SiteKind::kActv, at, each.tensor());
      } else {
        recorder_->ObserveMissing(at);
      }
    }
  }
  template <class Outputs>
  void HangHooks(const Outputs& outputs) {
    if (graph_) graph_->Finish(outputs);
  }
  // `kind`: the description of the whole result.
  template <class Outputs>
  void DescribeCall(const std::string& module, std::string kind, const Outputs& outputs) {
    input_structure_.config = "list[" + std::to_string(input_structure_.elements.size()) + "]";
    PortStructure port{std::move(kind), {}};
    for (const auto& each : outputs)
      port.elements.push_back(each.is_tensor() ? Tensors::Describe(*context_, each.tensor()) : kNoTensor);
    const int entry = structure_->AddForward(module, std::move(input_structure_), std::move(port));
    if (graph_) graph_->gradients().Describe(structure_, entry);
  }

 private:
  Observation ObservationOf(SiteId site, uint16_t element) const { return {site, at_.micro_step, element, at_.call}; }

  std::shared_ptr<Context> context_;
  Recorder* recorder_;
  ModuleSites sites_;
  CallPosition at_;
  std::shared_ptr<StructureRecorder> structure_;
  PortStructure input_structure_;
  std::vector<Record> inputs_;  // measured, not enqueued yet
  std::optional<CallGraph<Graph>> graph_;
};

}  // namespace stepwatch::front_end
