// Plans that are compiled again although nobody has edited the file: the model has grown, or the program has changed
// the config in force. The step thread waits meanwhile, so what it has applied and ended is exact; the drain may not
// have told yet.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controller/reload/ranks.h"
#include "controller/reload/reloader.h"
#include "src/config/amend.h"
#include "src/plan/moved_layout.h"

namespace stepwatch::reload {

void Reloader::LearnWhatBegan() {
  const PlanId newest = parts_.data_plane->newest_begun();
  const bool is_news = std::any_of(state_.offered.begin(), state_.offered.end(),
                                   [&](const MachinePlan& plan) { return plan.plan_id == newest; });
  if (is_news) Feed(Applied{newest});
}

// The newest plan of the window in force: one that carries it on may still wait for the boundary. 0: there is none.
PlanId Reloader::InForce() const {
  if (!state_.window || parts_.data_plane->plan_id() != state_.window->plan_id) return 0;
  PlanId newest = state_.window->plan_id;
  for (const MachinePlan& plan : state_.offered)
    if (plan.keeps_window) newest = plan.plan_id;
  return newest;
}

// At the boundary at which a plan that carries on the window would begin, an edit begins.
bool Reloader::IsAboutToBeReplaced() const {
  return state_.armed && parts_.data_plane->in_step() && !(ranks_ && dynamic_);
}

Status Reloader::AttachAgain() {
  LearnWhatBegan();
  moved_layout_.reset();
  if (ranks_) ranks_->DropBuilt();
  if (InForce() != 0 && parts_.data_plane->in_step()) {
    const Edit& running = sources_.at(state_.window->plan_id);
    moved_layout_ = plan::MovedLayout(running.compiled.plan->layout, *running.sites, pipeline_.sites());
  }
  const Ranks::OfferingAgain offering(ranks_.get());
  return OfferAgain(IsAboutToBeReplaced() ? Change() : CompileAnew, CompileAnew);
}

Status Reloader::Amend(const Amendment& amendment) {
  std::vector<config::Warning> warnings;
  std::optional<std::vector<Stat>> ops;
  if (amendment.ops) ops = config::OpsFromNames(*amendment.ops, &warnings);
  Warn(warnings);
  const Change change = [&](config::Config* config) {
    const config::Config before = *config;
    if (ops) config->ops = *ops;
    if (amendment.xy_distribution) config::SetXyDistribution(*amendment.xy_distribution, config);
    return !(*config == before);
  };
  if (!attached_ && !dynamic_) {
    change(&current_.parsed.value().config);
    return Status();
  }
  LearnWhatBegan();
  // What the ranks agree on is the same on all of them: a call cannot be, it comes before the edit on some and after it
  // on others.
  const bool is_agreed = ranks_ && dynamic_;
  if (InForce() == 0 && (!state_.armed || is_agreed))
    Tell(EventKind::kNote, state_.armed ? "what the program has set does not hold for the edit that the ranks agree on"
                                        : "no plan is in force: what the program has set has no effect");
  const Ranks::OfferingAgain offering(ranks_.get());
  return OfferAgain(IsAboutToBeReplaced() ? Change() : change, is_agreed ? Change() : change);
}

std::optional<Edit> Reloader::Changed(PlanId plan_id, const Change& change) const {
  if (plan_id == 0 || !change) return std::nullopt;
  Edit candidate = sources_.at(plan_id);
  if (!change(&candidate.parsed.value().config)) return std::nullopt;
  return candidate;
}

Status Reloader::OfferAgain(const Change& of_plan_in_force, const Change& of_armed_plan) {
  const PlanId armed_id = state_.armed ? state_.armed->plan_id : 0;
  std::optional<Edit> running = Changed(InForce(), of_plan_in_force);
  std::optional<Edit> armed = Changed(armed_id, of_armed_plan);
  if (!running && !armed) return Status();
  if (armed_id != 0 && !armed) armed = sources_.at(armed_id);  // plans begin in the order of their ids
  PlanId id = state_.next_plan_id;
  std::vector<std::pair<PlanId, Edit>> compiled;
  for (std::optional<Edit>* candidate : {&running, &armed}) {
    if (!*candidate) continue;
    if (!pipeline_.Compile(&**candidate, id)) return (*candidate)->refusal;
    compiled.emplace_back(id++, **std::move(candidate));
  }
  for (auto& each : compiled) sources_.insert(std::move(each));
  Feed(Recompiled{running.has_value()});
  return Status();
}

}  // namespace stepwatch::reload
