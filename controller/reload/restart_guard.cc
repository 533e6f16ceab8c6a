#include "controller/reload/restart_guard.h"

#include <fmt/format.h>

#include <utility>

#include "src/base/ignore_exceptions.h"
#include "src/output/applied_configs.h"
#include "src/output/run_directory.h"

namespace stepwatch::reload {
namespace {

constexpr char kKey[] = "stepwatch.on_restart";

std::string NotBegunText(const output::HistoryLine& end) {
  const std::string when =
      end.run_id.empty() ? "" : fmt::format(" (run {}, {})", output::ShortId(end.run_id), end.time);
  const std::string how = end.outcome == "limited" ? "ended by a limit" : "done";
  const std::string where = end.step < 0 ? "" : fmt::format(" at step {}", end.step);
  return fmt::format(
      "this window was {}{} in an earlier start of this job{}; on_restart is once, so it does not begin again. To "
      "collect again, change the file, or use stepwatch start or POST /v1/start",
      how, where, when);
}

Event Warning(std::string message) {
  Event event;
  event.kind = EventKind::kWarning;
  event.place.key = kKey;
  event.message = std::move(message);
  return event;
}

}  // namespace

RestartGuard::RestartGuard(const Options& options, Dependencies dependencies)
    : options_(options),
      controller_(dependencies.controller),
      pipeline_(dependencies.pipeline),
      reports_(dependencies.reports),
      journal_(dependencies.journal),
      history_(dependencies.history),
      output_work_(dependencies.output_work),
      look_again_(std::move(dependencies.look_again)),
      on_answer_(std::move(dependencies.on_answer)) {}

bool RestartGuard::IsOnce() const {
  const Edit& edit = controller_->current();
  return edit.parsed.ok() && edit.parsed.value().config.own.on_restart == config::OnRestart::kOnce;
}

// Rank 0 alone checks, and the other ranks begin only its proposals. Ranks that share no store would each use the
// histories on their own disk.
std::string RestartGuard::WhyNotRemembered() const {
  const RunMode mode = controller_->mode();
  if (!mode.dynamic) return "the job is not in dynamic mode, and only in dynamic mode a window is written back";
  if (options_.world_size > 1 && !mode.shares_store)
    return "the ranks of this job share no store and could not act alike";
  if (options_.rank != 0) return "only rank 0 keeps a history";
  if (options_.job_id.empty())
    return "this job has no id that a restart could recognise: set STEPWATCH_JOB_ID to the same text at every start";
  return "";
}

void RestartGuard::OnNewWindow(const plan::Plan& plan) noexcept {
  ClearNotBegun();
  if (controller_->mode().dynamic) base::IgnoreExceptions([&] { WarnIfForgotten(plan); });
}

void RestartGuard::WarnIfForgotten(const plan::Plan& plan) {
  if (plan.config.own.on_restart != config::OnRestart::kOnce || !controller_->mode().reads_the_file) return;
  std::string why = WhyNotRemembered();
  const journal::RunJournal& journal = *journal_;
  const bool keeps_history = !journal.directory().empty() || journal.is_fixing_directory() ||
                             (plan.rank_writes && plan.layout.format != OutputFormat::kApi);
  if (why.empty() && !keeps_history)
    why = plan.rank_writes ? "a run with the format api keeps no history"
                           : "rank 0 is not among module_ranks, so the run keeps no history";
  if (why.empty() || !reports_->IsFirstWarningOf(kKey)) return;
  reports_->Emit(Warning("on_restart is once, but " + why + ". A restart begins this window again"));
}

bool RestartGuard::MayBeDone(EditIntent intent) {
  const MachineState& state = controller_->state();
  if (!state.seen.empty() || state.in_file) return false;
  const std::string& sha256 = controller_->current().sha256;
  if (first_seen_.empty()) first_seen_ = sha256;
  return first_seen_ == sha256 && intent == EditIntent::kRun && IsOnce() && WhyNotRemembered().empty();
}

void RestartGuard::ReadHistories() {
  struct Found {
    Result<std::optional<output::HistoryLine>> done = Status();
  };
  const auto found = std::make_shared<Found>();
  const auto reading = std::make_shared<Reading>();
  output_work_->Do(
      [found, where = output::OutputBase(options_.output_dir), job_id = options_.job_id,
       config_path = history_->config_path(), sha256 = controller_->current().sha256] {
        found->done = output::FindDoneWindow(where, job_id, config_path, sha256);
      },
      [this, found, reading](const Status& fault) {
        if (reading != reading_) return;  // the file has changed meanwhile
        OnHistories(fault.ok() ? found->done : Result<std::optional<output::HistoryLine>>(fault));
      });
  reading_ = reading;
}

// The model may have grown meanwhile, so the plan is compiled again.
void RestartGuard::OnHistories(const Result<std::optional<output::HistoryLine>>& done) try {
  const bool is_begun_anyway = reading_->is_begun_anyway;
  reading_.reset();
  Edit* const edit = controller_->mutable_current();
  EditIntent intent = pipeline_->Classify(edit, controller_->state().next_plan_id);
  if (!done.ok())
    reports_->Emit(
        Warning("on_restart is once, but it is not known whether an earlier start of this job has done this window: " +
                done.status().message() + ". The window begins"));
  if (done.ok() && done.value() && !is_begun_anyway && intent == EditIntent::kRun) {
    done_before_ = *done.value();
    intent = EditIntent::kDone;
  }
  controller_->Feed(BytesSeen{edit->sha256, intent});
  if (on_answer_) on_answer_();
} catch (...) {
  look_again_();
  throw;
}

void RestartGuard::ReportNotBegun() {
  const Edit& edit = controller_->current();
  Event event;
  event.kind = EventKind::kNotBegun;
  event.step = done_before_.step;
  event.sha256 = edit.sha256;
  event.bytes = static_cast<int64_t>(edit.text.size());
  event.message = not_begun_ = NotBegunText(done_before_);
  history_->NotBegun(edit.sha256, done_before_.step, event.message);
  reports_->Emit(std::move(event));
}

bool RestartGuard::BeginAgain(const std::string& sha256, const output::EditPeer& peer) {
  const MachineState& state = controller_->state();
  if (controller_->current().sha256 != sha256 || controller_->undecided()) return false;
  if (reading_) {
    reading_->is_begun_anyway = true;
    history_->BegunAgain(peer);
    return true;
  }
  const bool is_over = state.seen == sha256 && !state.armed && !state.window;
  if (!is_over || pipeline_->Classify(controller_->mutable_current(), state.next_plan_id) != EditIntent::kRun)
    return false;
  if (controller_->agreement() != nullptr) controller_->agreement()->DiscardWriteBack();
  history_->BegunAgain(peer);
  controller_->Feed(EditRepeated{sha256});
  if (!state.armed) return false;
  base::IgnoreExceptions([&] {
    reports_->Emit(EventKind::kNote,
                   "the window of the config file begins again, requested by " + output::PeerText(peer));
  });
  return true;
}

}  // namespace stepwatch::reload
