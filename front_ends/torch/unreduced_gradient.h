// The un-reduced gradient of one parameter: what backward passes have accumulated since its last update, measured as
// soon as it is accumulated, before anybody reduces, clips or unscales it.
//
// The hook hangs on the tensor, where torch calls what comes after an accumulation, and not on the node that
// accumulates: autograd holds that node weakly, and a node that somebody keeps alive refuses gradients of another shape
// once the tensor gets other data. Torch has one place for such a hook. One that is there already is kept and called
// after ours; one that is put there later takes ours off, which IsHung tells.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "front_ends/torch/context.h"
#include "stepwatch/record.h"

namespace stepwatch::torch_front {

class UnreducedGradient : public std::enable_shared_from_this<UnreducedGradient> {
 public:
  explicit UnreducedGradient(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  // --- step thread, outside of backward passes ---

  // From now on this site, or kNoSite: none.
  void Want(SiteId site, bool each_micro_batch) noexcept;
  bool wanted() const { return site_ != kNoSite; }
  void Hang(const at::Tensor& parameter);
  void TakeOff(const at::Tensor& parameter) noexcept;
  bool IsHung() const { return hook_ != nullptr; }

  // The update with this number in its step begins: of fewer passes than were announced, or more, the last one counts.
  // Passes until its end are those of a closure that the optimizer runs again, and no rows come of them.
  void BeginUpdate(Recorder& recorder, uint16_t update) noexcept;
  void EndUpdate() noexcept;
  // In its place: the next update repeats this one.
  void AbandonUpdate() noexcept;
  // The same for passes of a step without an update.
  void EndStep(Recorder& recorder) noexcept;

 private:
  class Hook;
  // Those of one step.
  struct Updates {
    uint32_t step = 0;
    uint32_t passes = 0;  // that came before the last one
    uint16_t begun = 0;
  };

  void OnAccumulated(const at::Tensor& parameter) noexcept;
  void Observe(Recorder& recorder, const at::Tensor& gradient, uint32_t pass, uint16_t update);
  void EnqueueKept(Recorder& recorder) noexcept;
  void DiscardKept() noexcept;
  Updates UpdatesOf(uint32_t step) const { return updates_.step == step ? updates_ : Updates{step}; }

  const std::shared_ptr<Context> context_;
  SiteId site_ = kNoSite;
  bool each_ = false;
  Hook* hook_ = nullptr;  // owned by the tensor
  StepCounter passes_;
  Updates updates_;
  bool is_updating_ = false;
  // Of a pass that may turn out to be the last one before the update, which finds a gradient that is reduced or
  // clipped.
  std::optional<Record> kept_;
  uint32_t kept_step_ = 0;
};

}  // namespace stepwatch::torch_front
