#include "controller/reload/replanner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/config/amend.h"
#include "src/plan/moved_layout.h"

namespace stepwatch::reload {
namespace {

bool CompileAnew(config::Config*) {
  return true;
}

}  // namespace

Replanner::Replanner(const Dependencies& dependencies)
    : data_plane_(dependencies.data_plane),
      controller_(dependencies.controller),
      plans_(controller_->plans()),
      state_(controller_->state()),
      pipeline_(dependencies.pipeline),
      limits_(dependencies.limits),
      resampler_(dependencies.resampler),
      reports_(dependencies.reports) {}

PlanId Replanner::InForce() const {
  if (!state_.window || data_plane_->plans.plan_id() != state_.window->plan_id) return 0;
  return std::max(state_.window->plan_id, state_.window->continuation);
}

// At the boundary at which the continuation of the window would begin, an edit begins.
bool Replanner::IsAboutToBeReplaced() const {
  return state_.armed && !controller_->ArmedWaits() && data_plane_->running.observed() && !controller_->mode().agrees();
}

Replanned Replanner::OnGrown() {
  controller_->FeedBegun();
  resampler_->Withdraw();
  if (controller_->agreement() != nullptr) controller_->agreement()->DiscardBuilt();
  std::unique_ptr<step::MovedHooks> moved;
  if (InForce() != 0 && data_plane_->running.observed()) {
    const Edit& running = plans_.Source(state_.window->plan_id);
    const plan::Plan& plan = *running.compiled.plan;
    moved = std::make_unique<step::MovedHooks>();
    moved->layout = plan::MovedLayout(plan.layout, *running.sites, pipeline_->sites());
    moved->requests = plan.requests;
    // The structure of half a step, under the names of other modules, is useless: the next plan requests it again.
    moved->requests.structure = moved->requests.exit_after_structure = moved->requests.stacks = false;
    moved->requests.module_names.clear();
  }
  Status over_limit;
  Replanned replanned =
      Replan(IsAboutToBeReplaced() ? Change() : CompileAnew, CompileAnew, OverLimit::kAllowed, &over_limit);
  replanned.moved_hooks = std::move(moved);
  if (!over_limit.ok()) {  // the model has grown nevertheless: the window ends in order, on its new sites
    reports_->Emit(EventKind::kLimited, over_limit.message() + "; the model has grown, and the collection ends");
    controller_->Feed(LimitReached{});
  }
  resampler_->ArmAgreed();
  return replanned;
}

Replanned Replanner::Amend(const Amendment& amendment) {
  std::vector<config::Warning> warnings;
  std::optional<std::vector<Stat>> ops;
  if (amendment.ops) ops = config::OpsFromNames(*amendment.ops, &warnings);
  reports_->Warn(warnings);
  const Change change = [&](config::Config* config) {
    const config::Config before = *config;
    if (ops) config->ops = *ops;
    if (amendment.xy_distribution) config::SetXyDistribution(*amendment.xy_distribution, config);
    return !(*config == before);
  };
  if (!controller_->is_attached() && !controller_->mode().dynamic) {
    change(&controller_->mutable_current()->parsed.value().config);
    return {};
  }
  controller_->FeedBegun();
  resampler_->Withdraw();
  // An agreed edit is the same on all ranks; a call cannot be, because it comes before the edit on some and after it on
  // others.
  const bool is_agreed = controller_->mode().agrees();
  if (InForce() == 0 && (!state_.armed || is_agreed))
    reports_->Emit(EventKind::kNote,
                   state_.armed ? "the change set by the program does not apply to the edit that the ranks agree on"
                                : "no plan is in force: the change set by the program has no effect");
  Status over_limit;
  Replanned replanned = Replan(IsAboutToBeReplaced() ? Change() : change, is_agreed ? Change() : change,
                               OverLimit::kRefused, &over_limit);
  if (!over_limit.ok())
    reports_->Emit(EventKind::kLimited,
                   over_limit.message() + "; the change set by the program is refused, and the plan stays");
  resampler_->ArmAgreed();
  return replanned;
}

void Replanner::Discard(const Replanned& replanned) {
  if (replanned.continuation) controller_->Feed(Discarded{replanned.continuation->plan().layout.plan_id});
}

std::optional<Edit> Replanner::Changed(PlanId plan_id, const Change& change) const {
  if (plan_id == 0 || !change) return std::nullopt;
  Edit edit = plans_.Source(plan_id);
  if (!change(&edit.parsed.value().config)) return std::nullopt;
  return edit;
}

Replanned Replanner::Replan(const Change& of_plan_in_force, const Change& of_armed_plan, OverLimit over,
                            Status* over_limit) {
  const PlanId armed_id = state_.armed ? state_.armed->plan_id : 0;
  std::optional<Edit> running = Changed(InForce(), of_plan_in_force);
  std::optional<Edit> armed = Changed(armed_id, of_armed_plan);
  if (!running && !armed) return {};
  if (armed_id != 0 && !armed) armed = plans_.Source(armed_id);  // plans begin in the order of their ids
  PlanId id = state_.next_plan_id;
  for (std::optional<Edit>* edit : {&running, &armed})
    if (*edit && !pipeline_->Compile(&**edit, id++)) return {(*edit)->refusal, nullptr, nullptr};
  for (const std::optional<Edit>* edit : {&running, &armed})
    if (*edit && over_limit->ok()) *over_limit = limits_->Check(*(*edit)->compiled.plan);
  if (!over_limit->ok() && over == OverLimit::kRefused) return {};
  id = state_.next_plan_id;
  for (std::optional<Edit>* edit : {&running, &armed})
    if (*edit) plans_.SetSource(id++, **edit);
  controller_->Feed(Recompiled{running.has_value()});
  return {Status(), controller_->TakeContinuation(), nullptr};
}

}  // namespace stepwatch::reload
