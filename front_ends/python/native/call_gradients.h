// The gradients of one call of a module: of its inputs, through this module alone, and of its outputs.
//
// Hooks on tensors bring them one by one. What has not come when the step ends gives a row, provided that any gradient
// of the call has come. As torch's full backward hooks have it: of zeros for a positional tensor beside an argument
// that has a gradient, and of nan for an argument that is no tensor and for an output that nothing used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "front_ends/python/native/context.h"
#include "front_ends/python/native/zeros_like.h"

namespace stepwatch::python {

using front_end::ModuleSites;

// Holds no tensor of the graph, which a hook would then keep alive for ever; only sums of gradients on their way.
class CallGradients : public std::enable_shared_from_this<CallGradients> {
 public:
  CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, front_end::CallPosition at);

  void ExpectInput(uint16_t element) { inputs_.emplace_back(element); }
  void ExpectOutput(uint16_t element) { outputs_.emplace_back(element); }
  // One more part of the gradient of an input: that of one node that takes it.
  void ExpectPartOfInput(uint16_t element) { ExpectPart(&inputs_, element); }
  // One more part of the gradient of an output that is not the outside's: that of a node inside the call that takes it.
  void ExpectPartOfOutput(uint16_t element) { ExpectPart(&outputs_, element); }
  // The input, or the output, expected last carries a hook, which tells its gradient if one comes.
  void LastInputIsWatched() { inputs_.back().watched = true; }
  void LastOutputIsWatched() { outputs_.back().watched = true; }
  // The input expected last is a tensor among several arguments.
  void LastInputIs(const TensorView& tensor) {
    if (tensor.dtype != DType::kOther) inputs_.back().zeros = ZerosLike(tensor);
  }
  void Describe(std::shared_ptr<front_end::StructureRecorder> structure, int entry);

  // Called by a hook, on an autograd thread; `gradient` may be None.
  void OnInput(uint16_t element, PyObject* gradient) noexcept { On(sites_.input_grad, &inputs_, element, gradient); }
  void OnPartOfInput(uint16_t element, PyObject* gradient) noexcept;
  // The whole gradient, when the parts from inside have come; the row has what comes from outside.
  void OnOutput(uint16_t element, PyObject* gradient) noexcept;
  void OnPartOfOutput(uint16_t element, PyObject* gradient) noexcept;
  // Called in the middle of a step if any gradient has come: gives the rows of inputs and outputs that cannot have one.
  void TellUnwatched() noexcept;
  // Whether its step is over, or the plan for which it was made: what comes for it then has no row.
  bool is_over() const;
  int32_t micro_step() const { return at_.micro_step; }
  // Called at the end of the step if any gradient has come: gives the rows of all whose gradient has not.
  void Finish() noexcept;
  // Before the structure is written: what has not come by then.
  void CompleteStructure() noexcept;

 private:
  struct Element {
    explicit Element(uint16_t number) : element(number) {}

    uint16_t element;
    bool watched = false;
    bool seen = false;
    bool told = false;                // it has the row of a gradient that does not come
    std::optional<TensorView> zeros;  // its gradient if nothing uses it
    uint32_t parts = 0;               // nodes of the call that take it
    uint32_t come = 0;                // how many have given their part
    Ref sum;                          // of what they gave
  };

  static Element* Find(std::vector<Element>* elements, uint16_t element);
  static void ExpectPart(std::vector<Element>* elements, uint16_t element);
  static void AddPart(Element* to, PyObject* gradient);
  static Ref WithoutParts(PyObject* gradient, const Ref& parts, bool are_several);
  void Answer();
  void AddUpParts();
  static bool AnySeen(const std::vector<Element>& elements);
  void FinishSide(Recorder& recorder, bool is_input, bool step_ends);
  void On(SiteId site, std::vector<Element>* elements, uint16_t element, PyObject* gradient) noexcept;
  void Show(Recorder& recorder, SiteId site, uint16_t element, PyObject* gradient);
  void AddToStructure(bool is_input, uint16_t element, std::string text);

  const std::shared_ptr<Context> context_;
  const uint64_t generation_;
  const uint32_t step_;
  const ModuleSites sites_;
  const front_end::CallPosition at_;
  std::vector<Element> inputs_, outputs_;
  bool answered_ = false;
  std::shared_ptr<front_end::StructureRecorder> structure_;
  int structure_entry_ = -1;
};

// An input or an output of a call.
struct GradientPlace {
  std::shared_ptr<CallGradients> call;
  uint16_t element;
  bool is_input;

  void Give(PyObject* gradient) const noexcept {
    if (is_input) {
      call->OnInput(element, gradient);
    } else {
      call->OnOutput(element, gradient);
    }
  }
};

}  // namespace stepwatch::python
