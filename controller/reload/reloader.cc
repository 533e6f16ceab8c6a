#include "controller/reload/reloader.h"

#include <chrono>
#include <utility>

namespace stepwatch::reload {
namespace {

constexpr std::chrono::milliseconds kBoardAfterFault{100};

status::PlanStatus StatusOf(const PlanView& view, int64_t at_step, const Options& options) {
  const plan::Plan& plan = *view.plan;
  status::PlanStatus status;
  status.plan_id = view.plan_id;
  status.config_sha256 = plan.config_sha256;
  status.collect_times = plan.config.collect_times;
  status.step_interval = plan.rule.interval;
  status.at_step = at_step;
  status.sites = static_cast<int64_t>(plan.layout.sites.size());
  status.rows_per_step = static_cast<int64_t>(plan.RowsPerStep(options.grad_acc_steps));
  status.queue_bytes = static_cast<int64_t>(step::RingBytes(plan, options.grad_acc_steps, options.ring_bytes_max));
  return status;
}

}  // namespace

Reloader::Reloader(const Options& options, bool dynamic, const Dependencies& with, std::function<void(Event)> emit)
    : options_(options),
      mode_(options, dynamic),
      on_change_(with.on_change),
      limits_(options, with.storage),
      pipeline_(options.rank, dynamic, &limits_),
      run_id_(options.run_id),
      board_timer_(*with.loop),
      output_work_(*with.loop, *with.output_io),
      history_(options, *with.loop, &output_work_, &with.storage->note_files(),
               [this](EventKind kind, std::string message) { reports_.Emit(kind, std::move(message)); }),
      journal_(options, dynamic, *with.loop, &output_work_, &with.storage->note_files(),
               {[this](EventKind kind, std::string message) { reports_.Emit(kind, std::move(message)); },
                [this](const std::string& directory) {
                  output_.SetDirectory(directory);
                  history_.SetDirectory(directory);
                }}),
      reports_(mode_, options.config_path, &controller_, &journal_, &history_, emit),
      output_(options_, with.storage, with.drain, &journal_),
      controller_(options_, mode_, with.data_plane, with.drain, &reports_, &output_,
                  {.on_seen = [this] { restart_.ClearNotBegun(); },
                   .on_not_begun = [this] { restart_.ReportNotBegun(); },
                   .on_new_window =
                       [this](const plan::Plan& plan) {
                         restart_.OnNewWindow(plan);
                         resampler_.OnNewWindow();
                       },
                   .on_placing = [this](const step::PendingPlan& plan) { resampler_.OnPlacing(plan); },
                   .write_back = [this](const WriteBack& action) { file_.WriteBack(action); },
                   .look_again = [this] { file_.LookAgain(), file_.Refresh(); },
                   .on_fed = [this] { rotation_.EndIfOver(); }}),
      edits_(&controller_, &pipeline_, &reports_),
      restart_(options_, {.controller = &controller_,
                          .pipeline = &pipeline_,
                          .reports = &reports_,
                          .journal = &journal_,
                          .history = &history_,
                          .output_work = &output_work_,
                          .look_again = [this] { file_.LookAgain(), file_.Refresh(); },
                          .on_answer = with.on_change}),
      resampler_(options_, mode_, with.question_host != nullptr,
                 {.data_plane = with.data_plane,
                  .board = with.board,
                  .controller = &controller_,
                  .pipeline = &pipeline_,
                  .journal = &journal_,
                  .reports = &reports_}),
      replanner_({.data_plane = with.data_plane,
                  .controller = &controller_,
                  .pipeline = &pipeline_,
                  .limits = &limits_,
                  .resampler = &resampler_,
                  .reports = &reports_}),
      pauses_(with.data_plane, &controller_),
      rotation_(with.data_plane, &controller_, &journal_, &reports_),
      disk_(with.storage, &limits_, &controller_, &resampler_, &reports_),
      file_(options_, {.loop = with.loop,
                       .io = with.io,
                       .files = with.files,
                       .controller = &controller_,
                       .pipeline = &pipeline_,
                       .restart = &restart_,
                       .resampler = &resampler_,
                       .journal = &journal_,
                       .history = &history_,
                       .reports = &reports_}),
      requests_(options_, {.loop = with.loop,
                           .files = with.files,
                           .controller = &controller_,
                           .pipeline = &pipeline_,
                           .edits = &edits_,
                           .file = &file_,
                           .restart = &restart_,
                           .resampler = &resampler_,
                           .history = &history_}),
      board_reader_(
          with.board, &journal_, &history_, [this](const Input& input) { controller_.Feed(input); },
          [this](const drain::SegmentBegun& begun) { rotation_.OnSegment(begun); }, std::move(emit)) {
  if (!mode_.shares_store) return;
  agreement_ = std::make_unique<PlanAgreement>(
      options_, dynamic, *with.loop, with.data_plane,
      PlanAgreement::Delegates{
          .edits = &edits_,
          .samplings = &resampler_,
          .reporter = &reports_,
          .on_pause_agreed = [this](bool pause, int64_t at_step) { pauses_.OnAgreed(pause, at_step); },
          .write_back = [this](const WriteBack& action) { file_.WriteBackNow(action); },
          .on_run_id =
              [this](const std::string& run_id) {
                run_id_ = run_id;
                if (on_change_) on_change_();
                journal_.SetRunId(run_id);
                history_.SetRunId(run_id);
              }},
      with.question_host);
  controller_.SetAgreement(agreement_.get());
}

Replanned Reloader::Attach(SiteIndex sites) {
  pipeline_.SetSites(std::move(sites));
  journal_.SetSites(pipeline_.shared_sites());
  if (controller_.is_attached()) return replanner_.OnGrown();
  if (!mode_.dynamic) {
    Edit* const edit = controller_.mutable_current();
    const EditIntent intent = pipeline_.Classify(edit, controller_.state().next_plan_id);
    if (intent == EditIntent::kRefused) return {edit->refusal, nullptr, nullptr};
    if (edit->compiled.plan) restart_.WarnIfForgotten(*edit->compiled.plan);
    controller_.Feed(BytesSeen{edit->sha256, intent});
    controller_.SetAttached();
    return {};
  }
  if (mode_.reads_the_file) file_.MakeWatcher();
  controller_.SetAttached();
  JoinRanks();
  if (file_.is_watched()) file_.Watch();
  return {};
}

void Reloader::JoinRanks() {
  if (agreement_) agreement_->Enter();
}

void Reloader::Refresh() {
  OnBoard();
  reports_.OnRefresh();
  file_.Refresh();
}

void Reloader::OnBoard() {
  try {
    board_reader_.Read();
  } catch (...) {
    board_timer_.After(kBoardAfterFault, [this] { OnBoard(); });
    throw;
  }
  controller_.plans().TidySlot();
  disk_.StopIfUsedUp();
  resampler_.OnMeasured();
}

void Reloader::StopWatching() {
  requests_.Stop();
  resampler_.Stop();
  if (agreement_) agreement_->Leave();
  file_.writer().Stop();
  journal_.Stop();
  history_.Stop();
  file_.Stop();
}

bool Reloader::looked() const {
  return file_.looks_awaited() == 0 && !journal_.is_fixing_directory() && !restart_.is_reading();
}

RunState Reloader::state() const {
  const RunState state = RunStateOf(controller_.state());
  const bool is_quiet = state == RunState::kIdle || state == RunState::kOff;
  if (!reports_.fault().empty() && is_quiet) return RunState::kFailed;
  if (state == RunState::kIdle && (!recorded() || file_.writer().busy())) return RunState::kDraining;
  return state == RunState::kArmed && controller_.undecided() ? RunState::kPreparing : state;
}

ReloadView Reloader::View() {
  const MachineState& state = controller_.state();
  const Edit& current = controller_.current();
  ReloadView view;
  status::ReloadStatus& status = view.status;
  const auto show = [&](PlanId plan_id, std::optional<PlanView>* shown, std::optional<status::PlanStatus>* of_plan) {
    const Edit* source = controller_.plans().Find(plan_id);
    if (source == nullptr || source->compiled.plan == nullptr) return;
    *shown = {plan_id, source->compiled.plan, source->sites};
    *of_plan = StatusOf(**shown, controller_.StepOf(plan_id), options_);
  };
  status.run_id = run_id_;
  if (agreement_) status.incarnation = agreement_->incarnation();
  status.file_sha256 = state.in_file.value_or(state.seen);
  status.overridden = state.in_file.has_value();
  status.segment = rotation_.segment();
  if (state.refused && current.sha256 == state.seen) status.refusal = current.refusal;
  status.not_begun = restart_.not_begun();
  if (state.lost) status.file_trouble = reports_.look_error();
  if (state.window)
    show(state.window->continuation != 0 ? state.window->continuation : state.window->plan_id, &view.in_force,
         &status.in_force);
  if (state.armed) show(state.armed->plan_id, &view.armed, &status.armed);
  if (const auto& newest = view.in_force ? view.in_force : view.armed) status.budget = resampler_.View(*newest->plan);
  status.stopping = state.stopping;
  status.watch_mode = file_.watch_mode();
  if (controller_.is_attached()) view.sites = pipeline_.shared_sites();
  view.in_file = file_.Config();
  return view;
}

}  // namespace stepwatch::reload
