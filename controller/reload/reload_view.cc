#include "controller/reload/reload_view.h"

#include "controller/reload/reloader.h"

namespace stepwatch::reload {

std::optional<PlanView> Reloader::ViewOf(PlanId plan_id) const {
  const Edit* source = plans_.Find(plan_id);
  if (source == nullptr || source->compiled.plan == nullptr) return std::nullopt;
  const plan::Plan& plan = *source->compiled.plan;
  PlanView view;
  view.plan_id = plan_id;
  view.config_sha256 = plan.config_sha256;
  view.collect_times = plan.config.collect_times;
  view.step_interval = plan.config.step_interval;
  if (in_slot_.plan_id == plan_id) view.at_step = in_slot_.at_step;
  view.sites = static_cast<int64_t>(plan.layout.sites.size());
  view.rows_per_step = static_cast<int64_t>(plan.RowsPerStep(options_.grad_acc_steps));
  return view;
}

ReloadView Reloader::View() const {
  ReloadView view;
  view.file_sha256 = state_.seen;
  if (state_.refused && current_.sha256 == state_.seen) view.refusal = current_.refusal;
  if (state_.lost) view.file_trouble = look_error_;
  if (state_.window)
    view.in_force = ViewOf(state_.window->continuation != 0 ? state_.window->continuation : state_.window->plan_id);
  if (state_.armed) view.armed = ViewOf(state_.armed->plan_id);
  view.stopping = state_.stopping;
  if (watcher_) view.watch_mode = watcher_->mode();
  return view;
}

}  // namespace stepwatch::reload
