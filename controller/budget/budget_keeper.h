// Keeps the budget of the window in force: passes measurements to the governor, and reports an excess that is not
// reduced.
//
// Loop thread only. One process decides for itself. Each rank of a job proposes a sampling, and all apply the one that
// they agree on (job_budget.h). Where they cannot agree the cost is reported, and the sampling is not reduced.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "controller/budget/job_budget.h"
#include "controller/budget/sampling_governor.h"
#include "controller/status/job_status.h"
#include "src/drain/status_board.h"
#include "src/plan/plan.h"
#include "stepwatch/event.h"

namespace stepwatch::budget {

class BudgetKeeper {
 public:
  using Emit = std::function<void(EventKind, std::string, PlanId)>;

  // `why_not`: why the sampling is not reduced in this job; empty: it is.
  BudgetKeeper(std::string why_not, Emit emit);

  // Records a measurement of this plan. Returns the change to make, if it is the plan in force and no other change is
  // in progress (`may_act`).
  std::optional<SamplingGovernor::Decision> OnMeasured(const drain::StepsMeasured& measured, const plan::Plan& plan,
                                                       bool may_act);
  // The proposal of this rank of a job for the plan in force.
  BudgetProposal Propose(const plan::Plan& plan) const;
  // Why the ranks of the job do not apply one rank's proposal, which is reported once and shown; empty: they do.
  void SetTrouble(const std::string& why, const plan::Plan& plan);
  static std::string TextOf(const SamplingGovernor::Decision& decision, const plan::Plan& plan);
  // Records that the decision about this plan is applied. Strong exception guarantee.
  void Follow(const SamplingGovernor::Decision& decision, const plan::Plan& plan);
  // Nullopt: the plan has no budget.
  std::optional<status::BudgetStatus> View(const plan::Plan& plan) const;

 private:
  bool acts() const { return why_not_.empty(); }
  // Starts over for a plan of another edit.
  void BeginFor(const plan::Plan& plan);
  void ReportExcess(const plan::Plan& plan, PlanId plan_id, const std::optional<SamplingGovernor::Decision>& decision);

  const std::string why_not_;  // empty: the sampling is reduced
  const Emit emit_;
  std::string sha256_;  // of the edit to which the governor belongs
  std::optional<SamplingGovernor> governor_;
  bool is_excess_reported_ = false;
  std::string trouble_;
  uint64_t decisions_ = 0;
  std::string last_decision_;
};

}  // namespace stepwatch::budget
