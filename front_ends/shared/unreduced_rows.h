// The rows of the un-reduced gradients of one parameter: the sum that backward passes have accumulated since its last
// update, measured as soon as it is accumulated, before it is reduced, clipped or unscaled.
//
// A step may have more backward passes than were announced (grad_acc_steps), or fewer: the last one before an update
// counts. Each multiple of the announced number has its row at once. Any other pass may turn out to be the last one
// when the update begins, and the gradient is reduced or clipped by then: its record is kept until another pass comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

class UnreducedRows {
 public:
  // From now on uses this site; kNoSite: none. `recorder`: null once the monitor is closed.
  void Want(Recorder* recorder, SiteId site, bool each_micro_batch) noexcept;
  bool wanted() const { return site_ != kNoSite; }
  bool each_micro_batch() const { return each_; }

  // Counts another backward pass. Returns the number of passes in this step.
  uint32_t CountPass(uint32_t step) noexcept { return passes_.Add(step); }
  uint32_t CountOfPasses(uint32_t step) const noexcept { return passes_.Count(step); }
  // True if the pass with this number in its step completes a multiple of the announced number, or every pass counts.
  bool EndsSeries(uint32_t step, uint32_t pass, int announced) const noexcept {
    return each_ || PassSinceUpdate(step, pass) % static_cast<uint32_t>(announced) == 0;
  }
  // Measures the gradient that the pass has left, or is about to leave. `context` measures tensors of the front end,
  // and has its step and the announced number of passes. Returns whether this added a row; the record may be kept
  // instead.
  template <class Context, class Tensor>
  bool See(Context& context, Recorder& recorder, const Tensor& gradient, uint32_t pass) {
    const uint32_t step = context.step;
    Discard(&recorder);
    const Observation at = ObservationOf(step, pass, context.grad_acc_steps);
    if (each_ || (EndsSeries(step, pass, context.grad_acc_steps) && (at.call == 0 || is_updating_))) {
      context.Observe(recorder, SiteKind::kGradUnreduced, at, gradient);
      return true;
    }
    if (Record record; context.Measure(recorder, SiteKind::kGradUnreduced, at, gradient, &record)) {
      kept_ = record;
      kept_step_ = step;
    }
    return false;
  }

  // The update with this number in its step (UpdateCounter) begins.
  void BeginUpdate(uint32_t step, uint16_t update) noexcept;
  // Passes from here on belong to the next update; those before belong to this one, which may repeat its closure.
  void EndUpdate(uint32_t step) noexcept;
  // Called instead of EndUpdate: the next update repeats this one.
  void AbandonUpdate(uint32_t step) noexcept;
  bool is_updating() const noexcept { return is_updating_; }

  // Enqueues the record that the last pass before an update has left. Returns whether this added a row.
  bool EnqueueKept(Recorder& recorder, uint32_t step) noexcept;
  // The same at the end of a step without an update. After an update, passes that no other update follows are those of
  // another network's loss.
  bool EndStep(Recorder& recorder, uint32_t step) noexcept;
  // Discards the kept record.
  void Discard(Recorder* recorder) noexcept;

 private:
  // Those of one step.
  struct Updates {
    uint32_t step = 0;
    uint32_t passes = 0;  // that came before the last one was over
    uint16_t begun = 0;
  };
  Updates UpdatesOf(uint32_t step) const noexcept { return updates_.step == step ? updates_ : Updates{step}; }
  uint32_t PassSinceUpdate(uint32_t step, uint32_t pass) const noexcept;
  Observation ObservationOf(uint32_t step, uint32_t pass, int announced) const noexcept;

  SiteId site_ = kNoSite;
  bool each_ = false;
  StepCounter passes_;
  Updates updates_;
  std::atomic<bool> is_updating_{false};
  std::optional<Record> kept_;
  uint32_t kept_step_ = 0;
};

}  // namespace stepwatch::front_end
