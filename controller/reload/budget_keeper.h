// Keeps the budget of the window in force: has the governor look at what is measured, and says what it does not do.
//
// Loop thread only. One process decides for itself. Each rank of a job says what it wants, and all do what they agree
// on (job_budget.h). Where they cannot agree the budget is measured and told, and nothing is lowered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "controller/reload/edit_pipeline.h"
#include "controller/reload/job_budget.h"
#include "controller/reload/reload_view.h"
#include "controller/reload/sampling_governor.h"
#include "src/drain/status_board.h"
#include "stepwatch/event.h"

namespace stepwatch::reload {

class BudgetKeeper {
 public:
  using Emit = std::function<void(EventKind, std::string, PlanId)>;

  // `why_not`: why nothing is lowered in this job; empty: it is.
  BudgetKeeper(std::string why_not, Emit emit);

  // What was measured of this plan, which came from `edit`. Returns what is to change, if it is the plan in force and
  // nothing else is under way (`may_act`).
  std::optional<SamplingGovernor::Decision> OnMeasured(const drain::StepsMeasured& measured, const Edit& edit,
                                                       bool may_act);
  // What this rank of a job wants to become of the plan in force, which came from `edit`.
  BudgetProposal Propose(const Edit& edit) const;
  // Why the ranks of the job do not do what one of them wants, which is told once and shown; empty: they do.
  void SetTrouble(const std::string& why, const Edit& edit);
  static std::string TextOf(const SamplingGovernor::Decision& decision, const Edit& edit);
  // The decision, about a plan that came from `edit`, is carried out. What throws has changed nothing.
  void Follow(const SamplingGovernor::Decision& decision, const Edit& edit);
  // Of a plan that came from `edit`; nothing: it has no budget.
  std::optional<BudgetView> View(const Edit& edit) const;

 private:
  bool acts() const { return why_not_.empty(); }
  // Begins anew for an edit that is not the one before.
  void BeginFor(const Edit& edit);
  void ReportExcess(const Edit& edit, PlanId plan_id, const std::optional<SamplingGovernor::Decision>& decision);

  const std::string why_not_;  // empty: it acts
  const Emit emit_;
  std::string sha256_;  // of the edit that the governor is for
  std::optional<SamplingGovernor> governor_;
  bool is_excess_reported_ = false;
  std::string trouble_;
  uint64_t decisions_ = 0;
  std::string last_decision_;
};

}  // namespace stepwatch::reload
