#include "controller/reload/agreed_edits.h"

#include <algorithm>
#include <utility>

namespace stepwatch::reload {

PlanAgreement::BuiltEdit AgreedEdits::Build(const agree::Change& change, PlanId plan_id) {
  PlanAgreement::BuiltEdit built{pipeline_->Parse(change.sha256, change.bytes), nullptr};
  if (pipeline_->Classify(&built.edit, plan_id) == EditIntent::kRun)
    built.plan = controller_->plans().MakeWindow(built.edit.compiled.plan);
  return built;
}

void AgreedEdits::OnAgreed(const Edit& edit, PlanId plan_id) {
  *controller_->mutable_current() = edit;
  controller_->Feed(AgreedBytes{edit.sha256, edit.intent, plan_id});
}

void AgreedEdits::OnRejected(const agree::Change& change, const agree::Decision& decision) {
  controller_->Feed(Rejected{change.plan_id});
  reports_->ReportRejected(change, agree::AbortText(decision));
}

// No rank has used these ids.
void AgreedEdits::Renumber(PlanId next_plan_id) {
  const MachineState& state = controller_->state();
  if (!state.armed) return controller_->Feed(Renumbered{next_plan_id});
  const PlanId id = std::max(state.next_plan_id, next_plan_id);
  Edit edit = controller_->plans().Source(state.armed->plan_id);
  if (!pipeline_->Compile(&edit, id)) return;
  controller_->plans().SetSource(id, edit);
  controller_->Feed(Renumbered{next_plan_id});
}

void AgreedEdits::ReportArmed(const plan::Plan& plan, const std::string& when) noexcept {
  reports_->ReportArmed(plan, controller_->plans().Find(plan.layout.plan_id), when);
}

}  // namespace stepwatch::reload
