#include "controller/reload/pause_control.h"

namespace stepwatch::reload {

status::PauseResult PauseControl::Pause(bool pause) {
  using Outcome = status::PauseResult::Outcome;
  const RunMode mode = controller_->mode();
  const PlanId plan_id = data_plane_->plans.plan_id();
  const auto is = [&](Outcome outcome, bool is_agreed = false) {
    return status::PauseResult{.outcome = outcome, .plan_id = plan_id, .is_of_all_ranks = is_agreed};
  };
  if (mode.shares_store && (!mode.dynamic || !mode.reads_the_file)) return is(Outcome::kRanks);
  controller_->FeedBegun();
  if (mode.agrees()) return is(PauseRanks(pause), /*is_agreed=*/true);
  const std::optional<MachinePlan>& window = controller_->state().window;
  if (plan_id == 0 || !window) return is(Outcome::kNotCollecting);
  if (window->paused == pause) return is(Outcome::kUnchanged);
  controller_->Feed(PauseRequested{pause, controller_->ArmedWaits()});
  return is(window->paused == pause ? Outcome::kAsked : Outcome::kEnding);
}

// A pending edit ends a pause anyway, and the ranks agree on one change at a time.
status::PauseResult::Outcome PauseControl::PauseRanks(bool pause) {
  using Outcome = status::PauseResult::Outcome;
  const MachineState& state = controller_->state();
  PlanAgreement& agreement = *controller_->agreement();
  const step::PlanSwitch& in_force = data_plane_->plans;
  if (in_force.plan_id() == 0 || !state.window) return Outcome::kNotCollecting;
  if (agreement.pausing() == pause) return Outcome::kAsked;
  const bool is_edited = state.stopping || (state.armed && !agreement.defers());
  if (!agreement.pausing()) {
    const bool is_on_its_way = agreed_.at_step > data_plane_->running.number();
    if ((is_on_its_way ? agreed_.pause : in_force.paused()) == pause) return Outcome::kUnchanged;
    if ((controller_->undecided() && !agreement.is_resampling()) || is_edited) return Outcome::kEnding;
  }
  agreement.ProposePause(pause, controller_->plans().Source(state.window->plan_id));
  return Outcome::kAsked;
}

void PauseControl::OnAgreed(bool pause, int64_t at_step) {
  data_plane_->plans.RequestPauseAt(at_step, pause);
  agreed_ = {pause, at_step};
}

}  // namespace stepwatch::reload
