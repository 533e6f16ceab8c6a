// A front end whose tensors are single numbers, with a small graph of linear functions.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "front_ends/shared/call_graph.h"
#include "front_ends/shared/hook_context.h"
#include "tests/catch.h"
#include "tests/front_ends/shared/text_recorder.h"

namespace stepwatch::tests {

using Number = std::shared_ptr<const float>;  // null: no tensor

inline TensorView ViewOf(const Number& number) {
  return DenseView(number.get(), DType::kFloat32, nullptr, 0);
}

struct NumberContext;

struct NumberTensors {
  using Context = NumberContext;
  using Handle = Number;
  using Borrowed = const Number&;
  using Mutex = std::mutex;

  static constexpr bool kReportsUnwatchedAtOnce = false;

  static bool IsNone(const Number& number) { return number == nullptr; }
  static const Number& Borrow(const Number& sum) { return sum; }
  static Number Detach(const Number& number) { return number; }
  static Number Add(const Number& sum, const Number& part) { return std::make_shared<float>(*sum + *part); }
  static Number Subtract(const Number& whole, const Number& parts, bool) {
    return *whole == *parts ? nullptr : std::make_shared<float>(*whole - *parts);
  }
  static std::string Describe(const NumberContext&, const Number& number) {
    return front_end::DescribeView(ViewOf(number));
  }
  static std::string StillClockText(uint32_t passes) { return std::to_string(passes) + " passes"; }
};

struct NumberContext : front_end::HookContext<NumberTensors> {
  static bool Measure(Recorder& to, SiteKind, const Observation& at, const Number& number, Record* record) {
    return to.Measure(at, ViewOf(number), record);
  }
};

struct NumberNode;

struct NumberEdge {
  std::shared_ptr<NumberNode> node;
  float factor = 1;
};

// Passes its gradient on, times the factor of each edge.
struct NumberNode {
  uint64_t number = 0;
  std::vector<NumberEdge> next;
  bool writes_into_view = false;
  std::vector<std::function<void(const Number&)>> on_gradient{};
  std::vector<std::function<void(const std::vector<Number>&)>> on_computed{};
};

struct NumberVariable {
  std::shared_ptr<NumberNode> node;
  std::shared_ptr<NumberVariable> base;  // of which this one is a view
};
using Variable = std::shared_ptr<NumberVariable>;

struct NumberGraph {
  using Tensors = NumberTensors;
  using Node = std::shared_ptr<NumberNode>;
  using Edge = Node;
  using EdgeView = const Edge&;
  struct Layout {};
  static constexpr bool kHangsOnLeaves = false;

  static bool IsLeaf(const Node& node) { return node->number == std::numeric_limits<uint64_t>::max(); }
  static Edge EdgeOf(const Variable& tensor) { return tensor->node; }
  static Edge EdgeToNode(const Variable& tensor) { return IsLeaf(tensor->node) ? nullptr : tensor->node; }
  static Edge EdgeToBase(const Variable& tensor) { return tensor->base == nullptr ? nullptr : tensor->base->node; }
  static Layout LayoutOf(const Variable&) { return {}; }
  static Number InLayout(const Number& gradient, Layout) { return gradient; }
  static bool IsEmpty(const Edge& edge) { return edge == nullptr; }
  static bool AreSame(const Edge& a, const Edge& b) { return a == b; }
  static Node NodeOf(const Edge& edge) { return edge; }
  static const void* KeyOf(const Edge& edge) { return edge.get(); }
  template <class F>
  static void ForEachNext(const Node& node, const F& f) {
    for (size_t i = 0; i < node->next.size(); ++i) f(i, node->next[i].node);
  }
  static uint64_t NumberOf(const Node& node) { return node->number; }
  static uint64_t NextNumber() { return next_number; }
  static bool WritesIntoView(const Node& node) { return node->writes_into_view; }
  static void Hang(const Variable& tensor, front_end::GradientPlace<NumberTensors> place) {
    tensor->node->on_gradient.push_back([place = std::move(place)](const Number& number) { place.Deliver(number); });
  }
  static void HangOnNode(const Node& node, front_end::ConsumerHook<NumberGraph> hook) {
    node->on_computed.push_back([hook = std::move(hook)](const std::vector<Number>& computed) {
      hook.Deliver(computed.size(), [&](size_t i) -> const Number& { return computed[i]; });
    });
  }

  inline static uint64_t next_number = 1;
};

struct Side {
  using Context = NumberContext;
  using Tensors = NumberTensors;
  using Graph = NumberGraph;
  using Tensor = Variable;

  static Number Make(float number) { return std::make_shared<float>(number); }

  static Variable NodeOver(std::vector<NumberEdge> next) {
    return VariableOf({NumberGraph::next_number++, std::move(next)});
  }
  static Variable Leaf() { return VariableOf({std::numeric_limits<uint64_t>::max(), {}}); }
  static Variable Times(const Variable& a, float factor) { return NodeOver({{a->node, factor}}); }
  static Variable Plus(const Variable& a, const Variable& b) { return NodeOver({{a->node}, {b->node}}); }
  static Variable ViewOf(const Variable& base) {
    Variable view = NodeOver({{base->node}});
    view->base = base;
    return view;
  }
  static void WriteTimes(const Variable& view, float factor) {
    view->base->node = NodeOver({{view->base->node, factor}})->node;
    view->base->node->writes_into_view = true;
    view->node = NodeOver({{view->base->node}})->node;
  }

  static Variable VariableOf(NumberNode node) {
    return std::make_shared<NumberVariable>(NumberVariable{std::make_shared<NumberNode>(std::move(node)), nullptr});
  }

  // The gradient of `result` is 1. Younger nodes come first, as in autograd.
  static void Backward(const Variable& result) {
    std::vector<std::shared_ptr<NumberNode>> nodes{result->node};
    std::unordered_set<const NumberNode*> known{result->node.get()};
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const NumberEdge& each : std::vector<NumberEdge>(nodes[i]->next))
        if (known.insert(each.node.get()).second) nodes.push_back(each.node);
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a->number > b->number; });
    std::unordered_map<const NumberNode*, float> gradients{{result->node.get(), 1.0f}};
    for (const auto& node : nodes) {
      if (NumberGraph::IsLeaf(node)) continue;
      const float gradient = gradients[node.get()];
      for (const auto& hook : node->on_gradient) hook(Make(gradient));
      std::vector<Number> computed;
      for (const NumberEdge& each : node->next) {
        computed.push_back(Make(each.factor * gradient));
        gradients[each.node.get()] += each.factor * gradient;
      }
      for (const auto& hook : node->on_computed) hook(computed);
    }
  }
};

}  // namespace stepwatch::tests
