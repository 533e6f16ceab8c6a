// The part of autograd's graph that one call of a module makes: finds the nodes that compute the gradients of its
// inputs, and of outputs that it uses itself, and hangs hooks there that deliver these gradients.
//
// The module gets its own arguments, and the graph is not changed. Autograd adds up the gradients of a tensor in the
// order in which they arrive: an extra node between a tensor and a module would add up those of the module first, and
// training would no longer be bit-identical.
//
// `Graph` has the front end's graph, and its hooks:
//   Tensors                its tensors, as for CallGradients
//   Node, Edge             owned; an edge leads to an output of a node, or is empty
//   EdgeView               an edge, borrowed
//   Layout                 the sizes and strides of a tensor
//   EdgeOf(tensor)         the edge that its gradient takes, empty if it needs none; `tensor` as passed to a module
//   EdgeToNode(tensor)     the same, empty for a leaf as well
//   EdgeToBase(tensor)     that of the tensor of which this one is a view, if both are the same elements; else empty
//   LayoutOf(tensor), InLayout(gradient, layout)
//   IsEmpty(edge), AreSame(edge, edge), NodeOf(edge), KeyOf(edge)
//   ForEachNext(node, f)   calls f(position, edge) for the edges of a node
//   NumberOf(node)         in the order in which a thread makes nodes; the largest one for a node that adds to a leaf
//   NextNumber()           of the next node that this thread makes; 0: unknown
//   WritesIntoView(node)   it is between a base and the history of the base, because a view was written
//   Hang(tensor, place), HangOnNode(node, hook)
//   kHangsOnLeaves         if true also NeedsGradient(tensor), HangOnLeaf(leaf, place)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "front_ends/shared/call_gradients.h"

namespace stepwatch::front_end {

// Limit of nodes in a call: beyond it the walk costs more than the rows are worth, and parts of gradients have no rows.
inline constexpr size_t kNodesMax = size_t{1} << 20;
// Each output is compared with each other output: if there are more than this, the module is assumed to use none of
// them itself.
inline constexpr size_t kUsedOutputsMax = 64;

// The edge of an input or an output.
template <class Graph>
struct TensorEdge {
  typename Graph::Edge edge;
  uint16_t element = kNoElement;
  // Set for the edge of the base of an input: the layout of the input. A module that writes into such an input puts a
  // node between the base and its history, and that node has the gradient in the layout of the base.
  std::optional<typename Graph::Layout> of_view{};
};

// A node that uses some of the tensors.
template <class Graph>
struct Consumer {
  struct Use {
    size_t position = 0;  // among the gradients that the node computes
    uint16_t element = kNoElement;
    std::optional<typename Graph::Layout> of_view{};
  };
  typename Graph::Node node;
  std::vector<Use> uses;
};

// Finds the consumers among the nodes that `walked` nodes lead to. Nodes in `known` are not walked, nor those whose
// number is below `first_number`, which existed before.
template <class Graph>
std::vector<Consumer<Graph>> FindConsumers(const Graph& graph, std::vector<typename Graph::Node> walked,
                                           std::unordered_set<const void*> known,
                                           const std::vector<TensorEdge<Graph>>& edges, uint64_t first_number) {
  std::vector<Consumer<Graph>> found;
  for (size_t i = 0; i < walked.size(); ++i) {
    if (walked.size() > kNodesMax) return {};
    const typename Graph::Node node = walked[i];
    if (first_number > 0 && graph.NumberOf(node) < first_number) continue;
    Consumer<Graph> consumer{node, {}};
    graph.ForEachNext(node, [&](size_t position, typename Graph::EdgeView next) {
      for (const TensorEdge<Graph>& each : edges)
        if (graph.AreSame(next, each.edge) && (!each.of_view || graph.WritesIntoView(node)))
          consumer.uses.push_back({position, each.element, each.of_view});
      if (known.insert(graph.KeyOf(next)).second) walked.push_back(graph.NodeOf(next));
    });
    if (!consumer.uses.empty()) found.push_back(std::move(consumer));
  }
  return found;
}

// The hook on a node that uses inputs or outputs of the call.
template <class Graph>
struct ConsumerHook {
  using Tensors = typename Graph::Tensors;

  std::shared_ptr<CallGradients<Tensors>> gradients;
  std::vector<typename Consumer<Graph>::Use> uses;
  bool are_inputs = true;

  // `at(position)`: one of the `count` gradients that the node has computed.
  template <class At>
  void Deliver(size_t count, const At& at) const noexcept {
    for (const auto& use : uses)
      if (use.position < count) Deliver(use, at(use.position));
  }

 private:
  void Deliver(const typename Consumer<Graph>::Use& use, typename Tensors::Borrowed gradient) const noexcept {
    if (!are_inputs) return gradients->OnPartOfOutput(use.element, gradient);
    if (!use.of_view || Tensors::IsNone(gradient)) return gradients->OnPartOfInput(use.element, gradient);
    CatchAndReport(gradients->context(), "the hook of a part of a gradient", [&] {
      const typename Tensors::Handle part = Graph::InLayout(gradient, *use.of_view);
      gradients->OnPartOfInput(use.element, Tensors::Borrow(part));
    });
  }
};

// An input or an output of a call.
template <class Tensors>
struct GradientPlace {
  std::shared_ptr<CallGradients<Tensors>> call;
  uint16_t element = kNoElement;
  bool is_input = false;

  void Deliver(typename Tensors::Borrowed gradient) const noexcept {
    if (is_input) {
      call->OnPartOfInput(element, gradient);
    } else {
      call->OnOutput(element, gradient);
    }
  }
};

template <class Graph>
class CallGraph {
 public:
  using Gradients = CallGradients<typename Graph::Tensors>;

  // `all`: wants the gradients of inputs and outputs whatever the sites are.
  CallGraph(Graph graph, std::shared_ptr<Gradients> gradients, const ModuleSites& sites, bool all)
      : graph_(std::move(graph)),
        gradients_(std::move(gradients)),
        wants_inputs_(all || sites.input_grad != kNoSite),
        wants_outputs_(all || sites.output_grad != kNoSite) {}

  Gradients& gradients() const { return *gradients_; }

  // Before the module runs: the gradient of an input is wanted. Returns false if it needs none, or was passed before:
  // autograd cannot distinguish two uses of one tensor, and the gradient of both is recorded at the first.
  template <class Tensor>
  bool AddInput(const Tensor& input, uint16_t element) {
    if (!wants_inputs_) return false;
    typename Graph::Edge edge = graph_.EdgeOf(input);
    if (graph_.IsEmpty(edge) || Has(edge, /*of_view=*/false)) return false;
    edges_.push_back({std::move(edge), element});
    edge = graph_.EdgeToBase(input);
    if (!graph_.IsEmpty(edge) && !Has(edge, /*of_view=*/true))
      edges_.push_back({std::move(edge), element, graph_.LayoutOf(input)});
    return true;
  }
  // After the last input.
  void BeginForward() {
    if (!edges_.empty()) first_number_ = graph_.NextNumber();
  }

  // After the module has run: hangs all hooks. `outputs`: each has `element`, is_tensor() and tensor().
  template <class Outputs>
  void Finish(const Outputs& outputs) {
    std::vector<TensorEdge<Graph>> of_outputs;
    of_outputs.reserve(outputs.size());
    for (const auto& each : outputs)
      of_outputs.push_back(
          {each.is_tensor() ? graph_.EdgeToNode(each.tensor()) : typename Graph::Edge{}, each.element});
    if (!edges_.empty()) HangOnInputs(outputs, of_outputs);
    for (size_t i = 0; i < outputs.size(); ++i) HangOnOutput(outputs[i], graph_.IsEmpty(of_outputs[i].edge));
    if (wants_outputs_ && of_outputs.size() > 1 && of_outputs.size() <= kUsedOutputsMax) HangOnUsedOutputs(of_outputs);
  }

 private:
  bool Has(const typename Graph::Edge& edge, bool of_view) const {
    return std::any_of(edges_.begin(), edges_.end(), [&](const TensorEdge<Graph>& each) {
      return each.of_view.has_value() == of_view && graph_.AreSame(each.edge, edge);
    });
  }

  template <class Outputs>
  void HangOnInputs(const Outputs& outputs, const std::vector<TensorEdge<Graph>>& of_outputs) {
    std::vector<const typename Graph::Edge*> roots;
    for (size_t i = 0; i < of_outputs.size(); ++i) {
      const typename Graph::Edge& edge = of_outputs[i].edge;
      if (!graph_.IsEmpty(edge)) {
        if (!HangOnReturned(edge, [&](auto place) { graph_.Hang(outputs[i].tensor(), std::move(place)); }))
          roots.push_back(&edge);
      } else if constexpr (Graph::kHangsOnLeaves) {
        if (outputs[i].is_tensor() && graph_.NeedsGradient(outputs[i].tensor()))
          (void)HangOnReturned(graph_.EdgeOf(outputs[i].tensor()),
                               [&](auto place) { graph_.HangOnLeaf(outputs[i].tensor(), std::move(place)); });
      }
    }
    std::unordered_set<const void*> known;
    for (const TensorEdge<Graph>& each : edges_) known.insert(graph_.KeyOf(each.edge));
    std::vector<typename Graph::Node> walked;
    for (const typename Graph::Edge* root : roots)
      if (known.insert(graph_.KeyOf(*root)).second) walked.push_back(graph_.NodeOf(*root));
    for (Consumer<Graph>& each : FindConsumers(graph_, std::move(walked), std::move(known), edges_, first_number_)) {
      for (const auto& use : each.uses) gradients_->ExpectPartOfInput(use.element);
      HangOnNode(&each, /*are_inputs=*/true);
    }
  }

  // A module that returns an input unchanged adds no node to the graph: there the gradient is that of the tensor.
  template <class Hang>
  bool HangOnReturned(const typename Graph::Edge& edge, const Hang& hang) {
    const auto input = std::find_if(edges_.begin(), edges_.end(), [&](const TensorEdge<Graph>& each) {
      return !each.of_view && graph_.AreSame(each.edge, edge);
    });
    if (input == edges_.end()) return false;
    gradients_->ExpectPartOfInput(input->element);
    hang(GradientPlace<typename Graph::Tensors>{gradients_, input->element, /*is_input=*/true});
    edges_.erase(input);
    return true;
  }

  template <class Output>
  void HangOnOutput(const Output& output, bool is_leaf) {
    if (!is_leaf) {
      gradients_->ExpectOutput(output.element, /*is_watched=*/true);
      return graph_.Hang(output.tensor(), {gradients_, output.element, /*is_input=*/false});
    }
    bool is_watched = false;
    if constexpr (Graph::kHangsOnLeaves)
      is_watched = wants_outputs_ && output.is_tensor() && graph_.NeedsGradient(output.tensor());
    gradients_->ExpectOutput(output.element, is_watched);
    if constexpr (Graph::kHangsOnLeaves)
      if (is_watched) graph_.HangOnLeaf(output.tensor(), {gradients_, output.element, /*is_input=*/false});
  }

  // Outputs that the module itself uses, such as logits beside the loss or the features of each stage: the users of an
  // output among the nodes of the others, which are younger than the node that has made it.
  void HangOnUsedOutputs(const std::vector<TensorEdge<Graph>>& of_outputs) {
    std::vector<typename Graph::Node> walked;
    std::unordered_set<const void*> known;
    uint64_t oldest = std::numeric_limits<uint64_t>::max();
    for (const TensorEdge<Graph>& each : of_outputs) {
      if (graph_.IsEmpty(each.edge) || !known.insert(graph_.KeyOf(each.edge)).second) continue;
      walked.push_back(graph_.NodeOf(each.edge));
      oldest = std::min(oldest, graph_.NumberOf(walked.back()));
    }
    if (walked.size() < 2 || oldest == std::numeric_limits<uint64_t>::max()) return;
    for (Consumer<Graph>& each : FindConsumers(graph_, std::move(walked), std::move(known), of_outputs, oldest + 1)) {
      for (const auto& use : each.uses) gradients_->ExpectPartOfOutput(use.element);
      HangOnNode(&each, /*are_inputs=*/false);
    }
  }

  void HangOnNode(Consumer<Graph>* consumer, bool are_inputs) {
    graph_.HangOnNode(consumer->node, {gradients_, std::move(consumer->uses), are_inputs});
  }

  Graph graph_;
  std::shared_ptr<Gradients> gradients_;
  bool wants_inputs_;
  bool wants_outputs_;
  std::vector<TensorEdge<Graph>> edges_;  // of inputs with a wanted gradient
  uint64_t first_number_ = 0;             // of the nodes that the call makes
};

}  // namespace stepwatch::front_end
