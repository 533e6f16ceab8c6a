#include "front_ends/python/native/input_consumers.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace stepwatch::python {
namespace {

// A call with more nodes is skipped: the walk would cost more than its rows are worth.
constexpr size_t kNodesMax = size_t{1} << 20;

// Nodes that accumulate into a leaf have the largest number of all.
unsigned long long NumberOf(const Names& names, PyObject* node) {
  const Ref number = CallMethod(node, names.sequence_nr);
  const unsigned long long value = number ? PyLong_AsUnsignedLongLong(number.ptr()) : ~0ULL;
  if (PyErr_Occurred() == nullptr) return value;
  ClearError();
  return ~0ULL;
}

bool IsOlder(const Names& names, PyObject* node, long first_sequence) {
  return first_sequence > 0 && NumberOf(names, node) < static_cast<unsigned long long>(first_sequence);
}

bool ChangesInPlace(PyObject* node) {
  const Ref name = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(node)), "__name__");
  const char* const text = name ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (text != nullptr) return std::string_view(text) == "CopySlices";
  ClearError();
  return false;
}

// Adds the nodes that `seen` nodes lead to and that are not in `known`.
std::vector<Consumer> Walk(const Names& names, std::vector<Ref> seen, std::unordered_set<PyObject*> known,
                           const std::vector<GradientEdge>& edges, long first_sequence) {
  std::vector<Consumer> found;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen.size() > kNodesMax) return {};
    const Ref node = seen[i];
    if (IsOlder(names, node.ptr(), first_sequence)) continue;
    const Ref next = Attribute(node.ptr(), names.next_functions);
    if (!next || !PyTuple_Check(next.ptr())) continue;
    Consumer consumer;
    for (Py_ssize_t position = 0; position < NB_TUPLE_GET_SIZE(next.ptr()); ++position) {
      PyObject* const pair = NB_TUPLE_GET_ITEM(next.ptr(), position);
      if (!PyTuple_Check(pair) || NB_TUPLE_GET_SIZE(pair) != 2) continue;
      PyObject* const to = NB_TUPLE_GET_ITEM(pair, 0);
      if (to == Py_None) continue;
      for (const GradientEdge& edge : edges)
        if (edge.Is(to, NB_TUPLE_GET_ITEM(pair, 1)) && (!edge.of_base || ChangesInPlace(node.ptr())))
          consumer.taken.push_back({position, edge.element, edge.of_base});
      if (known.insert(to).second) seen.push_back(Ref::Borrow(to));
    }
    if (!consumer.taken.empty()) {
      consumer.node = node;
      found.push_back(std::move(consumer));
    }
  }
  return found;
}

}  // namespace

long SequenceOf(const Names& names, PyObject* node) {
  const unsigned long long number = NumberOf(names, node);
  return number > static_cast<unsigned long long>(std::numeric_limits<long>::max()) ? -1 : static_cast<long>(number);
}

bool GradientEdge::Is(PyObject* other_node, PyObject* other_output) const {
  if (node.ptr() != other_node) return false;
  const int same = PyObject_RichCompareBool(output.ptr(), other_output, Py_EQ);
  if (same < 0) ClearError();
  return same > 0;
}

GradientEdge EdgeOfNode(const Names& names, PyObject* tensor, uint16_t element) {
  Ref node = Attribute(tensor, names.grad_fn);
  if (!node || node.ptr() == Py_None) return {};
  Ref output = Attribute(tensor, names.output_nr);
  return output ? GradientEdge{std::move(node), std::move(output), element} : GradientEdge{};
}

GradientEdge EdgeOf(const Names& names, PyObject* tensor, uint16_t element) {
  GradientEdge edge = EdgeOfNode(names, tensor, element);
  if (edge.node) return edge;
  // A leaf has no node: uses the next function of any node that uses it.
  const Ref taker = CallMethod(tensor, names.view_as, tensor);
  const Ref node = taker ? Attribute(taker.ptr(), names.grad_fn) : Ref();
  const Ref next = node ? Attribute(node.ptr(), names.next_functions) : Ref();
  const Ref first = next && PyTuple_Check(next.ptr()) && NB_TUPLE_GET_SIZE(next.ptr()) > 0
                        ? Ref::Borrow(NB_TUPLE_GET_ITEM(next.ptr(), 0))
                        : Ref();
  if (!first || !PyTuple_Check(first.ptr()) || NB_TUPLE_GET_SIZE(first.ptr()) != 2) return {};
  edge = {Ref::Borrow(NB_TUPLE_GET_ITEM(first.ptr(), 0)), Ref::Borrow(NB_TUPLE_GET_ITEM(first.ptr(), 1)), element};
  return edge.node.ptr() == Py_None ? GradientEdge{} : edge;
}

std::vector<Consumer> FindConsumers(const Names& names, std::vector<Ref> roots, const std::vector<GradientEdge>& edges,
                                    long first_sequence) {
  std::unordered_set<PyObject*> known;
  for (const GradientEdge& edge : edges) known.insert(edge.node.ptr());
  roots.erase(
      std::remove_if(roots.begin(), roots.end(), [&](const Ref& node) { return !known.insert(node.ptr()).second; }),
      roots.end());
  return Walk(names, std::move(roots), std::move(known), edges, first_sequence);
}

void KeepPartsOfOne(std::vector<Consumer>* consumers) {
  std::unordered_set<uint16_t> with_own;
  for (const Consumer& consumer : *consumers)
    for (const Consumer::Taken& taken : consumer.taken)
      if (!taken.of_base) with_own.insert(taken.element);
  for (Consumer& consumer : *consumers)
    std::erase_if(consumer.taken,
                  [&](const Consumer::Taken& taken) { return taken.of_base && with_own.count(taken.element) != 0; });
  std::erase_if(*consumers, [](const Consumer& consumer) { return consumer.taken.empty(); });
}

std::vector<Consumer> FindConsumersAmong(const Names& names, const std::vector<GradientEdge>& outputs) {
  std::vector<Ref> roots;
  std::unordered_set<PyObject*> known;
  long oldest = std::numeric_limits<long>::max();
  for (const GradientEdge& output : outputs) {
    if (!output.node || !known.insert(output.node.ptr()).second) continue;
    oldest = std::min(oldest, SequenceOf(names, output.node.ptr()));
    roots.push_back(output.node);
  }
  if (roots.size() < 2 || oldest < 0) return {};
  return Walk(names, std::move(roots), std::move(known), outputs, oldest + 1);  // every user of an output is younger
}

}  // namespace stepwatch::python
