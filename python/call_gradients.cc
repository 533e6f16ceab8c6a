#include "python/call_gradients.h"

#include <utility>

namespace stepwatch::python {

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
    AddToStructure(elements == &inputs_, element, gradient);
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

void CallGradients::AddToStructure(bool is_input, uint16_t element, PyObject* gradient) {
  if (structure_entry_ < 0) return;
  const size_t index = element == kNoElement ? 0 : element;
  std::string text = gradient == Py_None ? front_end::kNoTensor : context_->reader.Describe(gradient);
  if (is_input) {
    structure_->AddInputGradient(structure_entry_, index, std::move(text));
  } else {
    structure_->AddOutputGradient(structure_entry_, index, std::move(text));
  }
}

void CallGradients::Finish() noexcept {
  Guarded(*context_, "closing the gradients of a call", [&] {
    Monitor* const monitor = context_->Collecting();
    if (monitor == nullptr || context_->generation != generation_) return;
    for (const auto& [elements, site] : {std::pair{&inputs_, sites_.input_grad}, {&outputs_, sites_.output_grad}}) {
      for (const Element& expected : *elements) {
        if (expected.seen) continue;
        Show(*monitor, site, expected.element, Py_None);
        AddToStructure(elements == &inputs_, expected.element, Py_None);
      }
    }
  });
}

}  // namespace stepwatch::python
