#include "front_ends/torch/input_consumers.h"

#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace stepwatch::torch_front {
namespace {

namespace ag = torch::autograd;

// Limit of nodes in a call: beyond it the walk costs too much, and the call has no rows for gradients of inputs.
constexpr size_t kNodesMax = size_t{1} << 20;

bool Has(const std::vector<InputEdge>& edges, const ag::Edge& edge, bool of_base) {
  return std::any_of(edges.begin(), edges.end(),
                     [&](const InputEdge& each) { return each.of_base == of_base && each.edge == edge; });
}

bool IsWholeView(const at::Tensor& input) {
  if (!input.is_view() || input.layout() != at::kStrided || !input.is_contiguous()) return false;
  const at::Tensor base(input._base());
  return base.requires_grad() && base.layout() == at::kStrided && base.is_contiguous() && base.numel() == input.numel();
}

bool IsCopySlices(const ag::Node& node) {
  return dynamic_cast<const ag::CopySlices*>(&node) != nullptr;
}

std::vector<Consumer::Taken> TakenBy(const ag::Node& node, const std::vector<InputEdge>& edges) {
  std::vector<Consumer::Taken> taken;
  const ag::edge_list& next = node.next_edges();
  for (size_t position = 0; position < next.size(); ++position) {
    if (!next[position].is_valid()) continue;
    for (const InputEdge& each : edges)
      if (each.edge == next[position] && (!each.of_base || IsCopySlices(node)))
        taken.push_back({position, each.element, each.of_base, each.shape});
  }
  return taken;
}

}  // namespace

bool AppendEdges(const at::Tensor& input, uint16_t element, std::vector<InputEdge>* edges) {
  ag::Edge edge = ag::impl::gradient_edge(input);
  if (!edge.is_valid() || Has(*edges, edge, /*of_base=*/false)) return false;
  edges->push_back({std::move(edge), element, false});
  if (!IsWholeView(input)) return true;
  edge = ag::impl::gradient_edge(at::Tensor(input._base()));
  if (edge.is_valid() && !Has(*edges, edge, /*of_base=*/true))
    edges->push_back({std::move(edge), element, true, input.sizes().vec()});
  return true;
}

std::vector<Consumer> FindConsumers(std::vector<NodePtr> roots, const std::vector<InputEdge>& edges,
                                    uint64_t first_sequence) {
  std::unordered_set<const ag::Node*> known;
  for (const InputEdge& each : edges) known.insert(each.edge.function.get());
  std::vector<NodePtr> walked;
  for (NodePtr& root : roots)
    if (known.insert(root.get()).second) walked.push_back(std::move(root));
  std::vector<Consumer> found;
  for (size_t i = 0; i < walked.size(); ++i) {
    if (walked.size() > kNodesMax) return {};
    const NodePtr node = walked[i];
    if (node->sequence_nr() < first_sequence) continue;
    if (std::vector<Consumer::Taken> taken = TakenBy(*node, edges); !taken.empty())
      found.push_back({node, std::move(taken)});
    for (const ag::Edge& next : node->next_edges())
      if (next.is_valid() && known.insert(next.function.get()).second) walked.push_back(next.function);
  }
  return found;
}

}  // namespace stepwatch::torch_front
