#include "controller/reload/budget_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/ignore_exceptions.h"

namespace stepwatch::reload {
namespace {

const config::Config& ConfigOf(const Edit& edit) {
  return edit.compiled.plan->config;
}

SamplingGovernor::Limits LimitsOf(const config::Config& config) {
  SamplingGovernor::Limits limits;
  limits.percent = config.own.budget->percent;
  limits.step_interval = config.step_interval;
  for (const config::SiteGroup& group : config.own.sites)
    limits.longest_every = std::max(limits.longest_every, group.every);
  return limits;
}

}  // namespace

BudgetKeeper::BudgetKeeper(std::string why_not, Emit emit) : why_not_(std::move(why_not)), emit_(std::move(emit)) {}

void BudgetKeeper::BeginFor(const Edit& edit) {
  if (governor_ && sha256_ == edit.sha256) return;
  governor_.emplace(LimitsOf(ConfigOf(edit)));
  sha256_ = edit.sha256;
  is_excess_reported_ = false;
  trouble_.clear();
  decisions_ = 0;
  last_decision_.clear();
}

std::optional<SamplingGovernor::Decision> BudgetKeeper::OnMeasured(const drain::StepsMeasured& measured,
                                                                   const Edit& edit, bool may_act) {
  if (!ConfigOf(edit).own.budget) return std::nullopt;
  BeginFor(edit);
  governor_->Add({measured.cost, measured.is_first}, edit.sampling);
  std::optional<SamplingGovernor::Decision> decision = governor_->Decide(edit.sampling);
  base::IgnoreExceptions([&] { ReportExcess(edit, measured.plan_id, decision); });
  return acts() && may_act && edit.compiled.plan->rank_writes ? decision : std::nullopt;
}

// Once, until it is over.
void BudgetKeeper::ReportExcess(const Edit& edit, PlanId plan_id,
                                const std::optional<SamplingGovernor::Decision>& decision) {
  const std::optional<double> percent = governor_->percent(edit.sampling);
  const double budget = ConfigOf(edit).own.budget->percent;
  if (!percent || *percent <= budget) {
    is_excess_reported_ = is_excess_reported_ && percent.has_value() && *percent > 0.8 * budget;
    return;
  }
  const bool is_stuck = governor_->is_exhausted(edit.sampling);
  if ((acts() && !is_stuck) || is_excess_reported_) return;
  is_excess_reported_ = true;
  std::string text =
      acts()
          ? fmt::format("budget of {} %: measuring takes {:.3g} % of the training time, and nothing is left to reduce",
                        budget, *percent)
      : decision ? TextOf(*decision, edit) + "; this change is not made: " + why_not_
                 : fmt::format("budget of {} %: measuring takes {:.3g} % of the training time; {}", budget, *percent,
                               why_not_);
  emit_(EventKind::kWarning, std::move(text), plan_id);
}

BudgetProposal BudgetKeeper::Propose(const Edit& edit) const {
  const plan::Plan* const plan = edit.compiled.plan.get();
  if (plan == nullptr || !plan->config.own.budget || !plan->rank_writes) return {BudgetProposal::Kind::kNone, {}};
  if (!governor_ || sha256_ != edit.sha256) return {BudgetProposal::Kind::kStay, {}};
  const std::optional<SamplingGovernor::Decision> decision = governor_->Decide(edit.sampling);
  if (!decision) return {BudgetProposal::Kind::kStay, {}};
  return {BudgetProposal::Kind::kChange, *decision};
}

void BudgetKeeper::SetTrouble(const std::string& why, const Edit& edit) {
  BeginFor(edit);
  const bool is_news = trouble_.empty() && !why.empty();
  trouble_ = why;
  if (is_news)
    emit_(EventKind::kWarning,
          fmt::format("budget of {} %: the ranks do not change to another sampling: {}; the sampling in force stays, "
                      "and the change is retried less and less often",
                      ConfigOf(edit).own.budget->percent, why),
          edit.compiled.plan->layout.plan_id);
}

std::string BudgetKeeper::TextOf(const SamplingGovernor::Decision& decision, const Edit& edit) {
  return DecisionText(decision, edit.sampling, ConfigOf(edit).own.budget->percent, ConfigOf(edit).step_interval);
}

void BudgetKeeper::Follow(const SamplingGovernor::Decision& decision, const Edit& edit) {
  BeginFor(edit);
  std::string text = TextOf(decision, edit);
  governor_->Follow(decision, edit.sampling);
  trouble_.clear();
  ++decisions_;
  last_decision_ = std::move(text);
}

std::optional<BudgetView> BudgetKeeper::View(const Edit& edit) const {
  if (!edit.compiled.plan || !ConfigOf(edit).own.budget) return std::nullopt;
  BudgetView view;
  view.percent = ConfigOf(edit).own.budget->percent;
  view.why_not = acts() && sha256_ == edit.sha256 ? trouble_ : why_not_;
  view.factor = edit.sampling.factor;
  view.left_out = edit.sampling.left_out;
  if (!governor_ || sha256_ != edit.sha256) return view;
  view.spent_percent = governor_->spent_percent();
  view.decisions = decisions_;
  view.last_decision = last_decision_;
  return view;
}

}  // namespace stepwatch::reload
