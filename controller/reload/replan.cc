// Plans that are compiled again although nobody has edited the file: the model has grown, or the program has changed
// the config in force. The step thread waits meanwhile, so what it has applied and ended is exact; the drain may not
// have told yet.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controller/reload/reloader.h"
#include "src/config/amend.h"
#include "src/plan/moved_layout.h"

namespace stepwatch::reload {
namespace {

bool CompileAnew(config::Config*) {
  return true;
}

}  // namespace

void Reloader::LearnWhatBegan() {
  const PlanId newest = parts_.data_plane->plans.newest_begun();
  const bool continues = state_.window && state_.window->continuation == newest;
  const bool is_news = continues || std::any_of(state_.published.begin(), state_.published.end(),
                                                [&](const MachinePlan& plan) { return plan.plan_id == newest; });
  if (newest != 0 && is_news) Feed(Applied{newest});
}

// The newest plan of the window in force: one that continues it may still wait for the boundary. 0: there is none.
PlanId Reloader::InForce() const {
  if (!state_.window || parts_.data_plane->plans.plan_id() != state_.window->plan_id) return 0;
  return std::max(state_.window->plan_id, state_.window->continuation);
}

// At the boundary at which a plan that continues the window would begin, an edit begins.
bool Reloader::IsAboutToBeReplaced() const {
  return state_.armed && !ArmedWaits() && parts_.data_plane->running.observed() && !agrees();
}

Replanned Reloader::AttachAgain() {
  LearnWhatBegan();
  WithdrawResampled();
  if (agreement_) agreement_->DiscardBuilt();
  std::unique_ptr<step::MovedHooks> moved;
  if (InForce() != 0 && parts_.data_plane->running.observed()) {
    const Edit& running = plans_.Source(state_.window->plan_id);
    const plan::Plan& plan = *running.compiled.plan;
    moved = std::make_unique<step::MovedHooks>();
    moved->layout = plan::MovedLayout(plan.layout, *running.sites, pipeline_.sites());
    moved->requests = plan.requests;
    // Half a step's, under the names of other modules: the next plan asks again.
    moved->requests.structure = moved->requests.exit_after_structure = moved->requests.stacks = false;
    moved->requests.module_names.clear();
  }
  Status over_limit;
  Replanned replanned =
      Replan(IsAboutToBeReplaced() ? Change() : CompileAnew, CompileAnew, OverLimit::kAllowed, &over_limit);
  replanned.moved_hooks = std::move(moved);
  if (!over_limit.ok()) {  // the model has grown all the same: the window ends in good order, on its new sites
    Tell(EventKind::kLimited, over_limit.message() + "; the model has grown, and the collection ends");
    Feed(LimitReached{});
  }
  ArmAgreed();
  return replanned;
}

Replanned Reloader::Amend(const Amendment& amendment) {
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
    in_file_ = {};
    return {};
  }
  LearnWhatBegan();
  WithdrawResampled();
  // What the ranks agree on is the same on all of them: a call cannot be, it comes before the edit on some and after it
  // on others.
  const bool is_agreed = agrees();
  if (InForce() == 0 && (!state_.armed || is_agreed))
    Tell(EventKind::kNote, state_.armed
                               ? "the change set by the program does not apply to the edit that the ranks agree on"
                               : "no plan is in force: the change set by the program has no effect");
  Status over_limit;
  Replanned replanned = Replan(IsAboutToBeReplaced() ? Change() : change, is_agreed ? Change() : change,
                               OverLimit::kRefused, &over_limit);
  if (!over_limit.ok())
    Tell(EventKind::kLimited, over_limit.message() + "; the change set by the program is refused, and the plan stays");
  ArmAgreed();
  return replanned;
}

void Reloader::Discard(const Replanned& replanned) {
  if (replanned.continuation) Feed(Discarded{replanned.continuation->plan().layout.plan_id});
}

std::optional<Edit> Reloader::Changed(PlanId plan_id, const Change& change) const {
  if (plan_id == 0 || !change) return std::nullopt;
  Edit edit = plans_.Source(plan_id);
  if (!change(&edit.parsed.value().config)) return std::nullopt;
  return edit;
}

Replanned Reloader::Replan(const Change& of_plan_in_force, const Change& of_armed_plan, OverLimit over,
                           Status* over_limit) {
  const PlanId armed_id = state_.armed ? state_.armed->plan_id : 0;
  std::optional<Edit> running = Changed(InForce(), of_plan_in_force);
  std::optional<Edit> armed = Changed(armed_id, of_armed_plan);
  if (!running && !armed) return {};
  if (armed_id != 0 && !armed) armed = plans_.Source(armed_id);  // plans begin in the order of their ids
  PlanId id = state_.next_plan_id;
  for (std::optional<Edit>* edit : {&running, &armed})
    if (*edit && !pipeline_.Compile(&**edit, id++)) return {(*edit)->refusal, nullptr, nullptr};
  for (const std::optional<Edit>* edit : {&running, &armed})
    if (*edit && over_limit->ok()) *over_limit = limits_.Check(*(*edit)->compiled.plan);
  if (!over_limit->ok() && over == OverLimit::kRefused) return {};
  id = state_.next_plan_id;
  for (std::optional<Edit>* edit : {&running, &armed})
    if (*edit) plans_.SetSource(id++, **edit);
  Feed(Recompiled{running.has_value()});
  return {Status(), std::move(continuation_), nullptr};
}

// No rank has used these ids.
void Reloader::Renumber(PlanId next_plan_id) {
  if (!state_.armed) return Feed(Renumbered{next_plan_id});
  const PlanId id = std::max(state_.next_plan_id, next_plan_id);
  Edit edit = plans_.Source(state_.armed->plan_id);
  if (!pipeline_.Compile(&edit, id)) return;
  plans_.SetSource(id, edit);
  Feed(Renumbered{next_plan_id});
}

}  // namespace stepwatch::reload
