#include "controller/budget/budget_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/ignore_exceptions.h"

namespace stepwatch::budget {
namespace {

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

void BudgetKeeper::BeginFor(const plan::Plan& plan) {
  if (governor_ && sha256_ == plan.config_sha256) return;
  governor_.emplace(LimitsOf(plan.config));
  sha256_ = plan.config_sha256;
  is_excess_reported_ = false;
  trouble_.clear();
  decisions_ = 0;
  last_decision_.clear();
}

std::optional<SamplingGovernor::Decision> BudgetKeeper::OnMeasured(const drain::StepsMeasured& measured,
                                                                   const plan::Plan& plan, bool may_act) {
  if (!plan.config.own.budget) return std::nullopt;
  BeginFor(plan);
  governor_->Add({measured.cost, measured.is_first}, plan.sampling);
  std::optional<SamplingGovernor::Decision> decision = governor_->Decide(plan.sampling);
  base::IgnoreExceptions([&] { ReportExcess(plan, measured.plan_id, decision); });
  return acts() && may_act && plan.rank_writes ? decision : std::nullopt;
}

// Reports an excess once, until it is over.
void BudgetKeeper::ReportExcess(const plan::Plan& plan, PlanId plan_id,
                                const std::optional<SamplingGovernor::Decision>& decision) {
  const std::optional<double> percent = governor_->percent(plan.sampling);
  const double budget = plan.config.own.budget->percent;
  if (!percent || *percent <= budget) {
    is_excess_reported_ = is_excess_reported_ && percent.has_value() && *percent > 0.8 * budget;
    return;
  }
  const bool is_stuck = governor_->is_exhausted(plan.sampling);
  if ((acts() && !is_stuck) || is_excess_reported_) return;
  is_excess_reported_ = true;
  std::string text =
      acts()
          ? fmt::format("budget of {} %: measuring takes {:.3g} % of the training time, and nothing is left to reduce",
                        budget, *percent)
      : decision ? TextOf(*decision, plan) + "; this change is not made: " + why_not_
                 : fmt::format("budget of {} %: measuring takes {:.3g} % of the training time; {}", budget, *percent,
                               why_not_);
  emit_(EventKind::kWarning, std::move(text), plan_id);
}

BudgetProposal BudgetKeeper::Propose(const plan::Plan& plan) const {
  if (!plan.config.own.budget || !plan.rank_writes) return {BudgetProposal::Kind::kNone, {}};
  if (!governor_ || sha256_ != plan.config_sha256) return {BudgetProposal::Kind::kStay, {}};
  const std::optional<SamplingGovernor::Decision> decision = governor_->Decide(plan.sampling);
  if (!decision) return {BudgetProposal::Kind::kStay, {}};
  return {BudgetProposal::Kind::kChange, *decision};
}

void BudgetKeeper::SetTrouble(const std::string& why, const plan::Plan& plan) {
  BeginFor(plan);
  const bool is_news = trouble_.empty() && !why.empty();
  trouble_ = why;
  if (is_news)
    emit_(EventKind::kWarning,
          fmt::format("budget of {} %: the ranks do not change to another sampling: {}; the sampling in force stays, "
                      "and the change is retried less and less often",
                      plan.config.own.budget->percent, why),
          plan.layout.plan_id);
}

std::string BudgetKeeper::TextOf(const SamplingGovernor::Decision& decision, const plan::Plan& plan) {
  return DecisionText(decision, plan.sampling, plan.config.own.budget->percent, plan.config.step_interval);
}

void BudgetKeeper::Follow(const SamplingGovernor::Decision& decision, const plan::Plan& plan) {
  BeginFor(plan);
  std::string text = TextOf(decision, plan);
  governor_->Follow(decision, plan.sampling);
  trouble_.clear();
  ++decisions_;
  last_decision_ = std::move(text);
}

std::optional<status::BudgetStatus> BudgetKeeper::View(const plan::Plan& plan) const {
  if (!plan.config.own.budget) return std::nullopt;
  status::BudgetStatus view;
  view.percent = plan.config.own.budget->percent;
  view.why_not = acts() && sha256_ == plan.config_sha256 ? trouble_ : why_not_;
  view.factor = plan.sampling.factor;
  view.left_out = plan.sampling.left_out;
  if (!governor_ || sha256_ != plan.config_sha256) return view;
  view.spent_percent = governor_->spent_percent();
  view.decisions = decisions_;
  view.last_decision = last_decision_;
  return view;
}

}  // namespace stepwatch::budget
