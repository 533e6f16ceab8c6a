// The rows of one parameter: its sites, the updates of the running step, and the un-reduced gradients.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "front_ends/shared/micro_batches.h"
#include "front_ends/shared/wanted_sites.h"
#include "stepwatch/record.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

// The un-reduced gradients: the sum that backward passes have accumulated since the last update, measured as soon as it
// is accumulated, before it is reduced, clipped or unscaled.
//
// A step may have more backward passes than were announced (grad_acc_steps), or fewer: the last one before an update
// counts. Each multiple of the announced number has its row at once. Any other pass may turn out to be the last one
// when the update begins, and the gradient is reduced or clipped by then: its record is kept until another pass comes.
class UnreducedRows {
 public:
  // From now on uses this site; kNoSite: none. `recorder`: null once the monitor is closed.
  void Want(Recorder* recorder, SiteId site, bool each_micro_batch) noexcept;
  bool wanted() const { return site_ != kNoSite; }
  bool each_micro_batch() const { return each_; }

  // Counts another backward pass. Returns the number of passes in this step. `context` has its step, and is notified of
  // a number that is too large.
  template <class Context>
  uint32_t CountPass(Context& context) noexcept {
    const uint32_t pass = passes_.Add(context.step);
    if (!is_updating_) context.NotePasses(pass);
    return pass;
  }
  uint32_t CountOfPasses(uint32_t step) const noexcept { return passes_.Count(step); }
  // True if the pass with this number in its step completes a multiple of the announced number, or every pass counts.
  bool EndsSeries(uint32_t step, uint32_t pass, int announced) const noexcept {
    return each_ || PassSinceUpdate(step, pass) % static_cast<uint32_t>(announced) == 0;
  }
  // Measures the gradient that the pass has left, or is about to leave. `context` measures tensors of the front end,
  // and has its step and the announced number of passes. Returns whether this added a row; the record may be kept
  // instead.
  template <class Context, class Tensor>
  bool Observe(Context& context, Recorder& recorder, const Tensor& gradient, uint32_t pass) {
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

  // The gradient of the update with this number in its step is ready.
  void BeginUpdate(uint32_t step, uint16_t update) noexcept;
  // Passes from here on belong to the next update; those before belong to this one.
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

// Rows of further updates in a step have the update's number as the number of the call; the drain renumbers them once
// the last is known.
class ParameterRows {
 public:
  ParameterRows() { sites_.fill(kNoSite); }

  // From now on uses this site. `recorder`: null once the monitor is closed.
  void Want(Recorder* recorder, SiteKind kind, SiteId site, bool each_micro_batch) noexcept {
    sites_[static_cast<size_t>(kind)] = site;
    is_wanted_ = true;
    if (kind == SiteKind::kGradUnreduced) unreduced.Want(recorder, site, each_micro_batch);
  }
  void WantNothing(Recorder* recorder) noexcept {
    sites_.fill(kNoSite);
    is_wanted_ = false;
    unreduced.Want(recorder, kNoSite, false);
  }
  bool wanted() const { return is_wanted_; }
  SiteId site(SiteKind kind) const { return sites_[static_cast<size_t>(kind)]; }
  bool Wants(SiteKind kind) const { return site(kind) != kNoSite; }
  bool WantsMoments() const {
    return Wants(SiteKind::kExpAvg) || Wants(SiteKind::kExpAvgSq) || Wants(SiteKind::kMgDirection);
  }
  // The observation of a tensor around the update in progress.
  Observation At(SiteKind kind, uint32_t step) const noexcept { return {site(kind), 0, kNoElement, UpdateOf(step)}; }

  // Another update is about to begin; its gradient may not be ready yet.
  void BeginUpdate(uint32_t step) noexcept;
  // The gradient of the update is ready. Returns whether the last pass before has left a record, which is enqueued.
  bool BeginGradient(Recorder& recorder, uint32_t step) noexcept;
  void EndUpdate(uint32_t step) noexcept { unreduced.EndUpdate(step); }
  // Instead of EndUpdate: the update has failed, and the next one repeats it.
  void AbandonUpdate(uint32_t step) noexcept;

  UnreducedRows unreduced;

 private:
  static constexpr uint16_t kUpdatesMax = 0x7ffe;

  // 0 if no update has begun in this step.
  uint16_t UpdateOf(uint32_t step) const noexcept { return step_ != step || begun_ == 0 ? uint16_t{0} : current_; }

  std::array<SiteId, kSiteKindCount> sites_;
  bool is_wanted_ = false;
  uint32_t step_ = 0;        // of the last update
  uint16_t begun_ = 0;       // updates of this step
  uint16_t current_ = 0;     // number of the last one, with kRepeatedUpdate if it repeats another
  bool has_failed_ = false;  // the last one: the next one repeats it
};

}  // namespace stepwatch::front_end
