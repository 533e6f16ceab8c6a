// The gradients that flow back through one call of a watched module, and their rows.
//
// Hooks in the graph share one of these. It holds no tensor of the graph: a hook that held its own tensor would keep
// the graph alive for ever. Hooks run on the threads of the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "front_ends/torch/context.h"
#include "front_ends/torch/input_consumers.h"
#include "front_ends/torch/module_tap.h"

namespace stepwatch::torch_front {

class CallGradients : public std::enable_shared_from_this<CallGradients> {
 public:
  CallGradients(std::shared_ptr<Context> context, const ModuleSites& sites, CallPosition at);

  // While the call runs, on its thread.
  void ExpectInput(uint16_t element, const at::Tensor& input);
  // Hangs the hooks: on the nodes that take inputs, on outputs, and on outputs that are inputs handed on unchanged.
  void HangOn(const Consumer& consumer);
  void HangOnReturnedInput(const at::Tensor& output, uint16_t element);
  void HangOnOutput(const at::Tensor& output, uint16_t element);
  void Describe(std::shared_ptr<StructureRecorder> structure, int entry);

  // At the end of the step: adds up what has come of inputs whose other consumers the backward pass did not reach, and
  // gives a row of nan to inputs that it did not reach at all, if it came by this call.
  void Finish() noexcept;

 private:
  class NodeHook;
  // One input. The gradients that its consumers compute are its parts.
  struct Input {
    uint16_t element = 0;
    std::vector<int64_t> shape{};
    int parts = 0;
    int arrived = 0;
    bool seen = false;
    at::Tensor sum{};
  };

  Input* Find(uint16_t element);
  void OnPart(const Consumer::Taken& taken, const at::Tensor& gradient) noexcept;
  void OnInput(uint16_t element, const at::Tensor& gradient) noexcept;
  void OnOutput(uint16_t element, const at::Tensor& gradient) noexcept;
  void ShowInput(Recorder& recorder, uint16_t element, const at::Tensor& gradient);
  void Show(Recorder& recorder, SiteId site, uint16_t element, const at::Tensor& gradient);
  void ShowUnreachable(Recorder& recorder);
  void Answer();
  Recorder* Collecting() const noexcept;

  const std::shared_ptr<Context> context_;
  const uint64_t generation_;
  const uint32_t step_;
  const ModuleSites sites_;
  const CallPosition at_;
  std::shared_ptr<StructureRecorder> structure_;
  int structure_entry_ = -1;
  std::atomic<bool> answered_{false};  // a gradient has come by
  std::mutex mutex_;
  std::vector<Input> inputs_;  // in ascending order of elements; arrived, seen and sum are guarded by mutex_
};

}  // namespace stepwatch::torch_front
