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
#include <vector>

#include "controller/budget/job_budget.h"
#include "controller/budget/sampling_governor.h"
#include "src/drain/status_board.h"
#include "src/plan/plan.h"
#include "stepwatch/event.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::budget {

// The budget of the plan in force or armed, and how it is kept.
struct BudgetView {
  double percent = 0;
  std::string why_not;  // why the sampling is not reduced in this job; empty: it is
  int64_t factor = 1;   // multiplies the config's step_interval
  std::vector<SiteKind> left_out;
  std::optional<double> spent_percent;  // of recent steps; nullopt: no collected step has ended
  uint64_t decisions = 0;
  std::string last_decision;
};

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
  std::optional<BudgetView> View(const plan::Plan& plan) const;

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
