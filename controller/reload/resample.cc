// The budget has the window in force go on with another sampling: a plan that is compiled again from the same bytes,
// and waits in the slot like any other. Anything else that comes takes it out of there first.
#include <utility>

#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"

namespace stepwatch::reload {

void Reloader::KeepBudget() {
  for (const drain::StepsMeasured& measured : parts_.board->TakeMeasured()) {
    const Edit* edit = plans_.Find(measured.plan_id);
    if (edit == nullptr || edit->compiled.plan == nullptr) continue;  // its window is over
    const auto decision = budget_.Take(measured, *edit, MayResample(measured.plan_id));
    if (decision) Resample(measured.plan_id, *decision);
  }
}

// The plan is the one in force, and nothing is on its way to the step thread.
bool Reloader::MayResample(PlanId plan_id) const {
  return state_.window && state_.window->plan_id == plan_id && state_.window->continuation == 0 && !state_.armed &&
         !state_.stopping && state_.published.empty() && parts_.data_plane->plans.plan_id() == plan_id;
}

void Reloader::Resample(PlanId plan_id, const SamplingGovernor::Decision& decision) {
  const Edit before = plans_.Source(plan_id);
  Edit edit = before;
  edit.sampling = decision.sampling;
  const PlanId id = state_.next_plan_id;
  if (!pipeline_.Compile(&edit, id)) return;
  edit.compiled.warnings.clear();  // they are told
  plans_.SetSource(id, edit);
  Feed(Recompiled{});
  resampled_ = id;
  continuation_->at_step = 0;  // no boundary is too early, so that the step thread never puts it back
  PutInSlot(std::move(continuation_));
  in_slot_.at_step = parts_.data_plane->running.number() + 1;
  const std::string text = budget_.Follow(decision, before);
  Quietly([&] { journal_.Update(id, [&](output::ManifestPlan& plan) { plan.budget->decision = text; }); });
  Quietly([&] { Tell(EventKind::kNote, text, id); });
}

// What is no longer in the slot has begun, or its window has ended at the boundary at which it was to begin: the drain
// tells which.
void Reloader::WithdrawResampled() {
  if (resampled_ == 0) return;
  const PlanId id = std::exchange(resampled_, 0);
  if (parts_.data_plane->plans.slot().Publish(nullptr) != nullptr) Feed(Discarded{id});
}

}  // namespace stepwatch::reload
