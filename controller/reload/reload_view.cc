#include "controller/reload/reload_view.h"

#include <exception>
#include <memory>
#include <utility>

#include "controller/reload/reloader.h"
#include "src/base/sha256.h"

namespace stepwatch::reload {

std::optional<PlanView> Reloader::ViewOf(PlanId plan_id) const {
  const Edit* source = plans_.Find(plan_id);
  if (source == nullptr || source->compiled.plan == nullptr) return std::nullopt;
  const plan::Plan& plan = *source->compiled.plan;
  PlanView view;
  view.plan_id = plan_id;
  view.config_sha256 = plan.config_sha256;
  view.collect_times = plan.config.collect_times;
  view.step_interval = plan.rule.interval;
  if (in_slot_.plan_id == plan_id)
    view.at_step = in_slot_.at_step;
  else if (agreement_ && agreement_->defers() && state_.armed && state_.armed->plan_id == plan_id)
    view.at_step = source->at_step;
  view.sites = static_cast<int64_t>(plan.layout.sites.size());
  view.rows_per_step = static_cast<int64_t>(plan.RowsPerStep(options_.grad_acc_steps));
  view.plan = source->compiled.plan;
  view.model = source->sites;
  view.queue_bytes = static_cast<int64_t>(step::RingBytes(plan, options_.grad_acc_steps, options_.ring_bytes_max));
  return view;
}

EditTrial Reloader::Try(const std::string& text) {
  EditTrial trial;
  try {
    agree::Change change;
    change.sha256 = base::Sha256Hex(text);
    change.bytes = text;
    const PlanAgreement::BuiltEdit built = Build(change, state_.next_plan_id);
    if (built.edit.intent == EditIntent::kRefused) trial.refusal = built.edit.refusal;
    if (!built.plan) return trial;
    const plan::Plan& plan = built.plan->plan();
    trial.collects = true;
    trial.sites = static_cast<int64_t>(plan.layout.sites.size());
    trial.rows_per_step = static_cast<int64_t>(plan.RowsPerStep(options_.grad_acc_steps));
  } catch (const std::exception& error) {  // no memory, for the plan's ring perhaps
    trial.refusal = Status(StatusCode::kExhausted, error.what());
  }
  return trial;
}

// What a write-back has made of the text is not parsed: it differs from what was read in one word.
std::shared_ptr<const config::Config> Reloader::ConfigInFile() {
  const bool is_usable = current_.parsed.ok() && current_.intent != EditIntent::kRefused && !state_.seen.empty();
  if (!is_usable) return nullptr;
  if (in_file_.config && in_file_.read == current_.sha256 && in_file_.seen == state_.seen) return in_file_.config;
  auto config = std::make_shared<config::Config>(current_.parsed.value().config);
  if (current_.sha256 != state_.seen) config->dynamic_on = false;
  in_file_ = {current_.sha256, state_.seen, std::move(config)};
  return in_file_.config;
}

ReloadView Reloader::View() {
  ReloadView view;
  view.run_id = run_id_;
  if (agreement_) view.incarnation = agreement_->incarnation();
  view.file_sha256 = state_.in_file.value_or(state_.seen);
  view.given = state_.in_file.has_value();
  view.segment = segment_;
  if (state_.refused && current_.sha256 == state_.seen) view.refusal = current_.refusal;
  view.not_begun = not_begun_;
  if (state_.lost) view.file_trouble = look_error_;
  if (state_.window)
    view.in_force = ViewOf(state_.window->continuation != 0 ? state_.window->continuation : state_.window->plan_id);
  if (state_.armed) view.armed = ViewOf(state_.armed->plan_id);
  const PlanId newest = view.in_force ? view.in_force->plan_id : view.armed ? view.armed->plan_id : 0;
  if (const Edit* source = plans_.Find(newest)) view.budget = budget_.View(*source);
  view.stopping = state_.stopping;
  if (watcher_) view.watch_mode = watcher_->mode();
  if (attached_) view.sites = pipeline_.shared_sites();
  view.in_file = ConfigInFile();
  return view;
}

}  // namespace stepwatch::reload
