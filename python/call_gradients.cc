#include "python/call_gradients.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {
namespace {

std::string DescribeView(const TensorView& view) {
  return "size=" + front_end::TupleText(view.sizes.data(), static_cast<size_t>(view.ndim)) +
         ", dtype=" + DTypeName(view.dtype);
}

}  // namespace

CallGradients::CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, front_end::CallPosition at)
    : context_(std::move(context)), generation_(context_->generation), step_(context_->step), sites_(sites), at_(at) {}

void CallGradients::Describe(std::shared_ptr<front_end::StructureBook> structure, int entry) {
  structure_ = std::move(structure);
  structure_entry_ = entry;
}

void CallGradients::On(SiteId site, std::vector<Element>* elements, uint16_t element, PyObject* gradient) noexcept {
  Guarded(*context_, "the hook of a gradient", [&] {
    Monitor* const monitor = context_->Collecting();
    // A graph may be walked in a later step, or again after a change of plan.
    if (monitor == nullptr || context_->generation != generation_ || context_->step != step_) return;
    if (!std::exchange(answered_, true)) context_->answered.push_back(shared_from_this());
    for (Element& expected : *elements)
      if (expected.element == element) expected.seen = true;
    Show(*monitor, site, element, gradient);
    if (structure_entry_ < 0) return;
    AddToStructure(elements == &inputs_, element,
                   gradient == Py_None ? front_end::kNoTensor : context_->reader.Describe(gradient));
  });
}

void CallGradients::Show(Monitor& monitor, SiteId site, uint16_t element, PyObject* gradient) {
  if (site == kNoSite) return;
  const Observation at{site, at_.micro_step, element, at_.call};
  if (gradient != Py_None) {
    context_->Observe(monitor, SiteKind::kActvGrad, at, gradient);
  } else {
    monitor.ObserveMissing(at);
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

std::optional<TensorView> CallGradients::ZerosLike(const TensorView& tensor) {
  static constexpr double kZero = 0;  // all bits are zero: a zero of every dtype
  if (tensor.dtype == DType::kOther) return std::nullopt;
  TensorView zeros = tensor;
  zeros.data = &kZero;
  zeros.strides.fill(0);
  zeros.device = {};
  zeros.stream = nullptr;
  return zeros;
}

bool CallGradients::AnySeen(const std::vector<Element>& elements) {
  return std::any_of(elements.begin(), elements.end(), [](const Element& each) { return each.seen; });
}

void CallGradients::FinishSide(Monitor& monitor, bool is_input) {
  const std::vector<Element>& elements = is_input ? inputs_ : outputs_;
  const SiteId site = is_input ? sites_.input_grad : sites_.output_grad;
  const bool any_seen = AnySeen(elements);
  for (const Element& expected : elements) {
    if (expected.seen) continue;
    if (any_seen && expected.zeros) {
      if (site != kNoSite) monitor.Observe({site, at_.micro_step, expected.element, at_.call}, *expected.zeros);
    } else {
      Show(monitor, site, expected.element, Py_None);
    }
  }
}

void CallGradients::CompleteStructure() noexcept {
  Guarded(*context_, "closing the structure of a call", [&] {
    for (const std::vector<Element>* elements : {&inputs_, &outputs_}) {
      const bool any_seen = AnySeen(*elements);
      for (const Element& expected : *elements) {
        if (expected.seen) continue;
        AddToStructure(elements == &inputs_, expected.element,
                       any_seen && expected.zeros ? DescribeView(*expected.zeros) : front_end::kNoTensor);
      }
    }
  });
}

void CallGradients::Finish() noexcept {
  Guarded(*context_, "closing the gradients of a call", [&] {
    Monitor* const monitor = context_->Collecting();
    if (monitor == nullptr || context_->generation != generation_) return;
    FinishSide(*monitor, true);
    FinishSide(*monitor, false);
  });
}

}  // namespace stepwatch::python
