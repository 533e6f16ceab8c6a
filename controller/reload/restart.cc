// "on_restart": "once": a window that an earlier start of this job has done, and that the file still asks for because
// nobody could write into it, is not begun again until somebody asks for it.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"
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

bool Reloader::IsOnce() const {
  return current_.parsed.ok() && current_.parsed.value().config.own.on_restart == config::OnRestart::kOnce;
}

// The ranks of a job do alike because rank 0 alone looks, and what it does not propose begins nowhere. Ranks that share
// no store would each go by what their own disk holds.
std::string Reloader::WhyNotRemembered() const {
  if (!dynamic_) return "the job is not in dynamic mode, and only in dynamic mode a window is written back";
  if (options_.world_size > 1 && !agreement_) return "the ranks of this job share no store and could not act alike";
  if (options_.rank != 0) return "only rank 0 keeps a history";
  if (options_.job_id.empty())
    return "this job has no id that a restart could recognise: set STEPWATCH_JOB_ID to the same text at every start";
  return "";
}

void Reloader::WarnIfForgotten(const plan::Plan& plan) {
  if (plan.config.own.on_restart != config::OnRestart::kOnce || (agreement_ && !agreement_->reads_the_file())) return;
  std::string why = WhyNotRemembered();
  const bool keeps_history = !journal_.directory().empty() || journal_.is_fixing_directory() ||
                             (plan.rank_writes && plan.layout.format != OutputFormat::kApi);
  if (why.empty() && !keeps_history)
    why = plan.rank_writes ? "a run with the format api keeps no history"
                           : "rank 0 is not among module_ranks, so the run keeps no history";
  if (why.empty() || !said_.insert(kKey).second) return;
  Tell(Warning("on_restart is once, but " + why + ". A restart begins this window again"));
}

// Only the first bytes that a process sees can be those of an earlier start. What is saved later is somebody's wish.
bool Reloader::MayBeDone(const watch::FileSnapshot& snapshot, EditIntent intent) {
  if (!state_.seen.empty() || state_.in_file) return false;
  if (first_seen_.empty()) first_seen_ = snapshot.sha256;
  return first_seen_ == snapshot.sha256 && intent == EditIntent::kRun && IsOnce() && WhyNotRemembered().empty();
}

void Reloader::AskHistory() {
  struct Found {
    Result<std::optional<output::HistoryLine>> done = Status();
  };
  const auto found = std::make_shared<Found>();
  const auto question = std::make_shared<RestartQuestion>();
  output_work_.Do(
      [found, where = output::OutputBase(options_.output_dir), job_id = options_.job_id,
       config_path = history_.config_path(),
       sha256 = current_.sha256] { found->done = output::FindDoneWindow(where, job_id, config_path, sha256); },
      [this, found, question](const Status& fault) {
        if (question != restart_question_) return;  // the file has changed meanwhile
        OnHistory(fault.ok() ? found->done : Result<std::optional<output::HistoryLine>>(fault));
      });
  restart_question_ = question;
}

// The model may have grown meanwhile, so the plan is compiled anew.
void Reloader::OnHistory(const Result<std::optional<output::HistoryLine>>& done) try {
  const bool is_asked_for = restart_question_->is_asked_for;
  restart_question_.reset();
  EditIntent intent = pipeline_.Classify(&current_, state_.next_plan_id);
  if (!done.ok())
    Tell(Warning("on_restart is once, but it is not known whether an earlier start of this job has done this window: " +
                 done.status().message() + ". The window begins"));
  if (done.ok() && done.value() && !is_asked_for && intent == EditIntent::kRun) {
    done_before_ = *done.value();
    intent = EditIntent::kDone;
  }
  Feed(BytesSeen{current_.sha256, intent});
  if (parts_.on_change) parts_.on_change();
} catch (...) {
  watcher_->SetKnown("");  // whatever the file holds is looked at again
  throw;
}

void Reloader::Perform(const ReportNotBegun&) {
  Event event;
  event.kind = EventKind::kNotBegun;
  event.step = done_before_.step;
  event.sha256 = current_.sha256;
  event.bytes = static_cast<int64_t>(current_.text.size());
  event.message = not_begun_ = NotBegunText(done_before_);
  history_.NotBegun(current_.sha256, done_before_.step, event.message);
  Tell(std::move(event));
}

bool Reloader::BeginAgain(const std::string& sha256, const output::EditPeer& peer) {
  if (current_.sha256 != sha256 || undecided() || config_writer_.busy()) return false;
  if (restart_question_) {
    restart_question_->is_asked_for = true;
    history_.AskedAgain(peer);
    return true;
  }
  const bool is_over = state_.seen == sha256 && !state_.armed && !state_.window;
  if (!is_over || pipeline_.Classify(&current_, state_.next_plan_id) != EditIntent::kRun) return false;
  if (agreement_) agreement_->DiscardWriteBack();
  history_.AskedAgain(peer);
  Feed(AskedAgain{sha256});
  if (!state_.armed) return false;
  Quietly([&] {
    Tell(EventKind::kNote, "the window of the config file begins again, requested by " + output::PeerText(peer));
  });
  return true;
}

}  // namespace stepwatch::reload
