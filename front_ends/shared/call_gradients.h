// The gradients that flow back through one call of a module, and their rows: those of its inputs, through this module
// alone, and those of its outputs.
//
// Hooks in the graph share one of these and deliver the gradients one by one, on the threads of the backward pass. It
// holds no tensor of the graph, which a hook would then keep alive forever, only sums of gradients in transit.
//
// `Tensors` has the front end's tensor types and operations:
//   Context                state that its hooks share, a HookContext
//   Handle, Borrowed       a tensor or none, owned; the same as passed to a hook
//   Mutex                  orders the threads of a backward pass
//   IsNone(borrowed), Borrow(handle), Detach(borrowed), Add(handle, handle), Describe(context, borrowed)
//   Subtract(borrowed, handle, are_several)   without the parts in the handle, which are several; none if it is no more
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/structure.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/recorder.h"

namespace stepwatch::front_end {

template <class Tensors>
class CallGradients : public std::enable_shared_from_this<CallGradients<Tensors>> {
 public:
  using Context = typename Tensors::Context;
  using Handle = typename Tensors::Handle;
  using Borrowed = typename Tensors::Borrowed;

  CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, CallPosition at)
      : context_(std::move(context)),
        generation_(context_->generation),
        step_(context_->step),
        sites_(sites),
        at_(at) {}

  // --- while the call runs, on its thread; in the order of the elements ---

  void ExpectInput(uint16_t element) { inputs_.emplace_back(element); }
  // `is_watched`: it has a hook, which delivers its gradient if there is one.
  void ExpectOutput(uint16_t element, bool is_watched) { outputs_.emplace_back(element).watched = is_watched; }
  // Adds one more part of the gradient of an input: that of one node that uses it.
  void ExpectPartOfInput(uint16_t element) { ExpectPart(&inputs_, element); }
  // Adds a part of the gradient of an output that is not from outside: that of a node of the call that uses the output.
  void ExpectPartOfOutput(uint16_t element) { ExpectPart(&outputs_, element); }
  // Its gradient, if it is unused while another input has one.
  void LastInputHasZeros(const TensorView& zeros) { inputs_.back().zeros = zeros; }
  void Describe(std::shared_ptr<StructureRecorder> structure, int entry) {
    structure_ = std::move(structure);
    structure_entry_ = entry;
  }

  // --- called by hooks; the gradient may be missing ---

  // The whole gradient, once the parts from inside have come; the row has the part from outside.
  void OnOutput(uint16_t element, Borrowed gradient) noexcept {
    Handle outside{};
    bool has_parts = false;
    CatchAndReport(*context_, "the hook of the gradient of an output", [&] {
      Element* const expected = Find(&outputs_, element);
      if (expected == nullptr || expected->parts == 0) return;
      Handle parts{};
      bool are_several = false;
      {
        const Lock lock(mutex_);
        are_several = expected->come > 1;
        parts = TakeSum(expected);
      }
      if (Tensors::IsNone(Tensors::Borrow(parts)) || Tensors::IsNone(gradient)) return;
      has_parts = true;
      outside = Tensors::Subtract(gradient, parts, are_several);
    });
    On(sites_.output_grad, &outputs_, element, has_parts ? Tensors::Borrow(outside) : gradient);
  }
  void OnPartOfOutput(uint16_t element, Borrowed gradient) noexcept {
    CatchAndReport(*context_, "the hook of a part of a gradient", [&] {
      Element* const expected = Find(&outputs_, element);
      if (expected == nullptr || is_over()) return;
      const Lock lock(mutex_);
      AddPart(expected, gradient);
    });
  }
  // Adds parts in the order in which they arrive, as autograd does.
  void OnPartOfInput(uint16_t element, Borrowed gradient) noexcept {
    CatchAndReport(*context_, "the hook of a part of a gradient", [&] {
      Element* const expected = Find(&inputs_, element);
      if (expected == nullptr || is_over()) return;
      Answer();
      Handle sum{};
      {
        const Lock lock(mutex_);
        // A second walk of the graph for other gradients of the node: autograd.grad for the weights alone.
        if (expected->seen && Tensors::IsNone(gradient)) return;
        if (expected->parts > 1) {
          AddPart(expected, gradient);
          if (expected->come < expected->parts) return;
          sum = TakeSum(expected);
        }
      }
      OnInput(element, expected->parts > 1 ? Tensors::Borrow(sum) : gradient);
    });
  }

  // True if its step, or the plan for which it was made, is over: a graph may be walked in a later step, or again after
  // a change of plan, and such gradients have no row.
  bool is_over() const {
    return context_->Collecting() == nullptr || context_->generation != generation_ || context_->step != step_;
  }
  int32_t micro_step() const { return at_.micro_step; }
  Context& context() const { return *context_; }

  // --- if any gradient has come ---

  // In mid-step: adds the rows of inputs and outputs that cannot have a gradient.
  void ReportUnwatched() noexcept {
    CatchAndReport(*context_, "reporting the gradients that a call cannot have", [&] {
      if (!is_over()) FinishSides(/*step_ends=*/false);
    });
  }
  // At the end of the step: adds up the parts of inputs whose other nodes the backward pass did not reach, and adds the
  // rows of all elements without a gradient.
  void Finish() noexcept {
    CatchAndReport(*context_, "closing the gradients of a call", [&] {
      if (is_over()) return;
      AddUpParts();
      FinishSides(/*step_ends=*/true);
    });
  }
  // Before the structure is written: completes it with the gradients so far.
  void CompleteStructure() noexcept {
    CatchAndReport(*context_, "closing the structure of a call", [&] {
      AddUpParts();
      for (std::vector<Element>* const elements : {&inputs_, &outputs_})
        for (const Element& expected : *elements)
          if (!expected.seen) DescribeUnseen(elements, expected, AnySeen(*elements));
    });
  }

 private:
  using Lock = std::lock_guard<typename Tensors::Mutex>;

  struct Element {
    explicit Element(uint16_t number) : element(number) {}

    uint16_t element;
    bool watched = false;
    bool seen = false;
    bool reported = false;            // it has the row for a missing gradient
    std::optional<TensorView> zeros;  // its gradient if it is unused
    uint32_t parts = 0;               // nodes of the call that use it
    uint32_t come = 0;                // nodes that have delivered their part
    Handle sum{};                     // of these parts
  };

  // They are expected in the order of their numbers. A single positional argument has no number, but keyword arguments
  // beside it have.
  static Element* Find(std::vector<Element>* elements, uint16_t element) {
    const auto place_of = [](uint16_t number) { return number == kNoElement ? 0 : number; };
    const auto is_before = [&](const Element& each, int place) { return place_of(each.element) < place; };
    const auto found = std::lower_bound(elements->begin(), elements->end(), place_of(element), is_before);
    return found == elements->end() || found->element != element ? nullptr : &*found;
  }
  static void ExpectPart(std::vector<Element>* elements, uint16_t element) {
    Element* const expected = Find(elements, element);
    if (expected == nullptr) return;
    ++expected->parts;
    expected->watched = true;
  }
  static void AddPart(Element* to, Borrowed gradient) {
    ++to->come;
    if (Tensors::IsNone(gradient)) return;
    Handle part = Tensors::Detach(gradient);
    to->sum = Tensors::IsNone(Tensors::Borrow(to->sum)) ? std::move(part) : Tensors::Add(to->sum, part);
  }
  static Handle TakeSum(Element* of) {
    of->come = 0;
    return std::exchange(of->sum, Handle());
  }

  void OnInput(uint16_t element, Borrowed gradient) noexcept { On(sites_.input_grad, &inputs_, element, gradient); }
  static bool AnySeen(const std::vector<Element>& elements) {
    return std::any_of(elements.begin(), elements.end(), [](const Element& each) { return each.seen; });
  }

  void On(SiteId site, std::vector<Element>* elements, uint16_t element, Borrowed gradient) noexcept {
    CatchAndReport(*context_, "the hook of a gradient", [&] {
      Recorder* const recorder = context_->Collecting();
      if (recorder == nullptr || is_over()) return;
      if (Element* const expected = Find(elements, element)) {
        const Lock lock(mutex_);
        expected->seen = true;
      }
      Show(*recorder, site, element, gradient);
      if (structure_entry_ >= 0)
        AddToStructure(elements, element,
                       Tensors::IsNone(gradient) ? kNoTensor : Tensors::Describe(*context_, gradient));
      Answer();
    });
  }

  // The first gradient of the call.
  void Answer() {
    if (!answered_.exchange(true)) context_->AddAnswered(this->shared_from_this());
  }

  Observation ObservationOf(SiteId site, uint16_t element) const { return {site, at_.micro_step, element, at_.call}; }

  void Show(Recorder& recorder, SiteId site, uint16_t element, Borrowed gradient) {
    if (site == kNoSite) return;
    const Observation at = ObservationOf(site, element);
    if (Tensors::IsNone(gradient)) {
      recorder.ObserveMissing(at);
    } else {
      context_->Observe(recorder, SiteKind::kActvGrad, at, gradient);
    }
  }

  // No more parts will come: the other nodes that use the input were not reached.
  void AddUpParts() {
    for (Element& expected : inputs_) {
      Handle sum{};
      {
        const Lock lock(mutex_);
        if (expected.come == 0) continue;
        sum = TakeSum(&expected);
      }
      OnInput(expected.element, Tensors::Borrow(sum));
    }
  }

  void FinishSides(bool step_ends) {
    Recorder* const recorder = context_->Collecting();
    if (recorder == nullptr) return;
    const Lock lock(mutex_);
    FinishSide(*recorder, &inputs_, sites_.input_grad, step_ends);
    FinishSide(*recorder, &outputs_, sites_.output_grad, step_ends);
  }

  // Before the end of the step only final results are reported: an element without a hook, once it is known whether its
  // row is one of zeros.
  void FinishSide(Recorder& recorder, std::vector<Element>* elements, SiteId site, bool step_ends) {
    const bool any_seen = AnySeen(*elements);
    for (Element& expected : *elements) {
      if (expected.seen || expected.reported) continue;
      if (!step_ends && (expected.watched || (expected.zeros && !any_seen))) continue;
      expected.reported = true;
      DescribeUnseen(elements, expected, any_seen);
      if (site == kNoSite) continue;
      const Observation at = ObservationOf(site, expected.element);
      if (any_seen && expected.zeros) {
        recorder.Observe(at, *expected.zeros);
      } else {
        recorder.ObserveMissing(at);
      }
    }
  }

  void DescribeUnseen(const std::vector<Element>* elements, const Element& expected, bool any_seen) {
    if (structure_entry_ < 0) return;
    const bool is_zeros = any_seen && expected.zeros;
    AddToStructure(elements, expected.element, is_zeros ? DescribeView(*expected.zeros) : kNoTensor);
  }

  void AddToStructure(const std::vector<Element>* elements, uint16_t element, std::string text) {
    structure_->AddGradient(structure_entry_, elements == &inputs_, element == kNoElement ? 0 : element,
                            std::move(text));
  }

  const std::shared_ptr<Context> context_;
  const uint64_t generation_;
  const uint32_t step_;
  const ModuleSites sites_;
  const CallPosition at_;
  std::shared_ptr<StructureRecorder> structure_;
  int structure_entry_ = -1;
  std::vector<Element> inputs_;
  std::vector<Element> outputs_;
  std::atomic<bool> answered_{false};
  typename Tensors::Mutex mutex_;  // guards the state of elements: seen, reported, come and sum
};

}  // namespace stepwatch::front_end
