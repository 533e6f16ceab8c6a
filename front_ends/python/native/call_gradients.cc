#include "front_ends/python/native/call_gradients.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {
namespace {

// Calls of one step that are looked at again at its end; a program may never end a step.
constexpr size_t kAnsweredMax = size_t{1} << 18;

std::string DescribeView(const TensorView& view) {
  return "size=" + front_end::TupleText(view.sizes.data(), static_cast<size_t>(view.ndim)) +
         ", dtype=" + DTypeName(view.dtype);
}

}  // namespace

CallGradients::CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, front_end::CallPosition at)
    : context_(std::move(context)), generation_(context_->generation), step_(context_->step), sites_(sites), at_(at) {}

void CallGradients::Describe(std::shared_ptr<front_end::StructureRecorder> structure, int entry) {
  structure_ = std::move(structure);
  structure_entry_ = entry;
}

namespace {

// They are expected in the order of their numbers. An only positional argument has none, but keyword arguments beside
// it have.
uint16_t PlaceOf(uint16_t element) {
  return element == kNoElement ? 0 : element;
}

}  // namespace

CallGradients::Element* CallGradients::Find(std::vector<Element>* elements, uint16_t element) {
  const auto is_before = [](const Element& each, uint16_t place) { return PlaceOf(each.element) < place; };
  const auto found = std::lower_bound(elements->begin(), elements->end(), PlaceOf(element), is_before);
  return found == elements->end() || found->element != element ? nullptr : &*found;
}

void CallGradients::ExpectPart(std::vector<Element>* elements, uint16_t element) {
  if (Element* const expected = Find(elements, element)) ++expected->parts;
}

// Parts are added in the order in which they come, as autograd does.
void CallGradients::AddPart(Element* to, PyObject* gradient) {
  ++to->come;
  if (gradient == Py_None) return;
  Ref part = CallMethod(gradient, "detach");
  to->sum = part && to->sum ? Ref(PyNumber_Add(to->sum.ptr(), part.ptr())) : std::move(part);
}

// A graph may be walked in a later step, or again after a change of plan.
bool CallGradients::is_over() const {
  return context_->Collecting() == nullptr || context_->generation != generation_ || context_->step != step_;
}

void CallGradients::Answer() {
  if (std::exchange(answered_, true) || context_->answered.size() >= kAnsweredMax) return;
  context_->answered.push_back(shared_from_this());
}

void CallGradients::On(SiteId site, std::vector<Element>* elements, uint16_t element, PyObject* gradient) noexcept {
  Guarded(*context_, "the hook of a gradient", [&] {
    if (is_over()) return;
    Answer();
    if (Element* const expected = Find(elements, element)) expected->seen = true;
    Show(*context_->recorder, site, element, gradient);
    if (structure_entry_ < 0) return;
    AddToStructure(elements == &inputs_, element,
                   gradient == Py_None ? kNoTensor : context_->reader.Describe(gradient));
  });
}

void CallGradients::OnPartOfInput(uint16_t element, PyObject* gradient) noexcept {
  Guarded(*context_, "the hook of a part of a gradient", [&] {
    Element* const expected = Find(&inputs_, element);
    if (expected == nullptr || is_over()) return;
    // A second walk of the graph that asks for other gradients of the node: autograd.grad for the weights alone.
    if (gradient == Py_None && expected->seen) return;
    if (expected->parts <= 1) return On(sites_.input_grad, &inputs_, element, gradient);
    Answer();
    AddPart(expected, gradient);
    if (expected->come < expected->parts) return;
    expected->come = 0;
    const Ref whole = std::exchange(expected->sum, Ref());
    On(sites_.input_grad, &inputs_, element, whole ? whole.ptr() : Py_None);
  });
}

void CallGradients::OnPartOfOutput(uint16_t element, PyObject* gradient) noexcept {
  Guarded(*context_, "the hook of a part of a gradient", [&] {
    Element* const expected = Find(&outputs_, element);
    if (expected != nullptr && !is_over()) AddPart(expected, gradient);
  });
}

// Returns what comes from outside of the call, None if all comes from inside. Autograd hands a single gradient on as it
// is, in the same memory, and several as their sum; to compare sums would make a device be waited for.
Ref CallGradients::WithoutParts(PyObject* gradient, const Ref& parts, bool are_several) {
  const Ref whole = CallMethod(gradient, "detach");
  if (!whole) return whole;
  const Ref its_place = CallMethod(whole.ptr(), "data_ptr");
  const Ref place_of_parts = CallMethod(parts.ptr(), "data_ptr");
  bool same =
      its_place && place_of_parts && PyObject_RichCompareBool(its_place.ptr(), place_of_parts.ptr(), Py_EQ) == 1;
  if (!same && are_several && IsTrue(Attribute(whole.ptr(), "is_cpu")))
    same = IsTrue(Ref(PyObject_CallMethod(whole.ptr(), "equal", "O", parts.ptr())));
  return same ? Ref::Borrow(Py_None) : Ref(PyNumber_Subtract(whole.ptr(), parts.ptr()));
}

void CallGradients::OnOutput(uint16_t element, PyObject* gradient) noexcept {
  Ref outside;
  Guarded(*context_, "the hook of the gradient of an output", [&] {
    Element* const expected = Find(&outputs_, element);
    if (expected == nullptr || expected->come == 0) return;
    const bool are_several = std::exchange(expected->come, 0) > 1;
    const Ref parts = std::exchange(expected->sum, Ref());
    if (parts && gradient != Py_None) outside = WithoutParts(gradient, parts, are_several);
  });
  On(sites_.output_grad, &outputs_, element, outside ? outside.ptr() : gradient);
}

void CallGradients::Show(Recorder& recorder, SiteId site, uint16_t element, PyObject* gradient) {
  if (site == kNoSite) return;
  const Observation at{site, at_.micro_step, element, at_.call};
  if (gradient != Py_None) {
    context_->Observe(recorder, SiteKind::kActvGrad, at, gradient);
  } else {
    recorder.ObserveMissing(at);
  }
}

void CallGradients::AddToStructure(bool is_input, uint16_t element, std::string text) {
  if (structure_entry_ < 0) return;
  const size_t index = element == kNoElement ? 0 : element;
  if (is_input) {
    structure_->AddInputGradient(structure_entry_, index, std::move(text));
  } else {
    structure_->AddOutputGradient(structure_entry_, index, std::move(text));
  }
}

bool CallGradients::AnySeen(const std::vector<Element>& elements) {
  return std::any_of(elements.begin(), elements.end(), [](const Element& each) { return each.seen; });
}

// No more parts will come: the other nodes that take the input were not reached.
void CallGradients::AddUpParts() {
  for (Element& expected : inputs_) {
    if (expected.come == 0) continue;
    const Ref part = std::exchange(expected.sum, Ref());
    expected.come = 0;
    OnInput(expected.element, part ? part.ptr() : Py_None);
  }
}

// Before the step ends only what cannot change is told: an element without a hook, once it is clear whether its row is
// one of zeros.
void CallGradients::FinishSide(Recorder& recorder, bool is_input, bool step_ends) {
  std::vector<Element>& elements = is_input ? inputs_ : outputs_;
  const SiteId site = is_input ? sites_.input_grad : sites_.output_grad;
  const bool any_seen = AnySeen(elements);
  for (Element& expected : elements) {
    if (expected.seen || expected.told) continue;
    if (!step_ends && (expected.watched || (expected.zeros && !any_seen))) continue;
    expected.told = true;
    if (any_seen && expected.zeros) {
      if (site != kNoSite) recorder.Observe({site, at_.micro_step, expected.element, at_.call}, *expected.zeros);
    } else {
      Show(recorder, site, expected.element, Py_None);
    }
  }
}

void CallGradients::CompleteStructure() noexcept {
  Guarded(*context_, "closing the structure of a call", [&] {
    AddUpParts();
    for (const std::vector<Element>* elements : {&inputs_, &outputs_}) {
      const bool any_seen = AnySeen(*elements);
      for (const Element& expected : *elements) {
        if (expected.seen) continue;
        AddToStructure(elements == &inputs_, expected.element,
                       any_seen && expected.zeros ? DescribeView(*expected.zeros) : kNoTensor);
      }
    }
  });
}

void CallGradients::Finish() noexcept {
  Guarded(*context_, "closing the gradients of a call", [&] {
    Recorder* const recorder = context_->Collecting();
    if (is_over()) return;
    AddUpParts();
    FinishSide(*recorder, true, true);
    FinishSide(*recorder, false, true);
  });
}

void CallGradients::TellUnwatched() noexcept {
  Guarded(*context_, "reporting the gradients that a call cannot have", [&] {
    Recorder* const recorder = context_->Collecting();
    if (is_over()) return;
    FinishSide(*recorder, true, false);
    FinishSide(*recorder, false, false);
  });
}

}  // namespace stepwatch::python
