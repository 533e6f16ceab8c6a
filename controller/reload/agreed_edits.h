// The edits of a job whose ranks agree: builds the plan of a proposal on this rank, and feeds the ranks' decisions to
// the machine. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "controller/reload/plan_agreement.h"
#include "controller/reload/plan_controller.h"

namespace stepwatch::reload {

class AgreedEdits final : public PlanAgreement::Edits {
 public:
  // The pointers must outlive it.
  AgreedEdits(PlanController* controller, EditPipeline* pipeline, EditReporter* reports)
      : controller_(controller), pipeline_(pipeline), reports_(reports) {}

  PlanId next_plan_id() const override { return controller_->state().next_plan_id; }
  PlanAgreement::BuiltEdit Build(const agree::Change& change, PlanId plan_id) override;
  void OnAgreed(const Edit& edit, PlanId plan_id) override;
  void OnRejected(const agree::Change& change, const agree::Decision& decision) override;
  void Renumber(PlanId next_plan_id) override;
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) override { controller_->PutInSlot(std::move(plan)); }
  void ReportArmed(const plan::Plan& plan, const std::string& when) noexcept override;

 private:
  PlanController* const controller_;
  EditPipeline* const pipeline_;
  EditReporter* const reports_;
};

}  // namespace stepwatch::reload
