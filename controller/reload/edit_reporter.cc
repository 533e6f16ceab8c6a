#include "controller/reload/edit_reporter.h"

#include <utility>

#include "controller/reload/plan_controller.h"
#include "src/base/ignore_exceptions.h"

namespace stepwatch::reload {
namespace {

using base::IgnoreExceptions;

constexpr const char* kPlanStays = "; the running plan stays";

Event EventAbout(EventKind kind, const std::string& sha256, const std::string& text) {
  Event event;
  event.kind = kind;
  event.sha256 = sha256;
  event.bytes = static_cast<int64_t>(text.size());
  return event;
}

}  // namespace

EditReporter::EditReporter(RunMode mode, std::string config_path, const PlanController* controller,
                           journal::RunJournal* journal, journal::EditHistory* history, std::function<void(Event)> emit)
    : mode_(mode),
      config_path_(std::move(config_path)),
      controller_(controller),
      journal_(journal),
      history_(history),
      emit_(std::move(emit)) {}

void EditReporter::Emit(EventKind kind, std::string message, PlanId plan_id) {
  if (kind == EventKind::kSuperseded) history_->Superseded(plan_id);
  if (kind == EventKind::kAborted) history_->Aborted(plan_id, message);
  Event event;
  event.kind = kind;
  event.plan_id = plan_id;
  event.message = std::move(message);
  Emit(std::move(event));
}

void EditReporter::Warn(const std::vector<config::Warning>& warnings) {
  for (const config::Warning& warning : warnings) {
    if (warning.kind == config::Warning::Kind::kNotEffective && !IsFirstWarningOf(warning.place.key)) continue;
    Event event;
    event.kind = EventKind::kWarning;
    event.place = warning.place;
    event.message = warning.message;
    Emit(std::move(event));
  }
}

void EditReporter::Report(const ReportSeen&) {
  const Edit& edit = controller_->current();
  Event event = EventAbout(EventKind::kSeen, edit.sha256, edit.text);
  const std::optional<output::EditPeer>& peer = history_->seen_peer();
  event.message = "new bytes in " + config_path_;
  if (controller_->state().in_file)
    event.message = "new bytes " +
                    (peer ? "(through the control socket: " + output::PeerText(*peer) + ")" : "through a call") + "; " +
                    config_path_ + " is unchanged";
  else if (mode_.agrees() && !mode_.reads_the_file)
    event.message += " (from rank 0)";
  else if (peer)
    event.message += " (through the control socket: " + output::PeerText(*peer) + ")";
  Emit(std::move(event));
  if (edit.parsed.ok()) Warn(edit.parsed.value().warnings);
}

void EditReporter::Report(const ReportRefused&) {
  const Edit& edit = controller_->current();
  outcome_ = RefreshOutcome::kRefused;
  Event event = EventAbout(EventKind::kRefused, edit.sha256, edit.text);
  event.place = edit.refusal.place();
  event.message =
      edit.refusal.message() + (controller_->state().window || controller_->state().armed ? kPlanStays : "");
  ++refusals_[static_cast<size_t>(edit.refused_for)];
  Emit(std::move(event));
  history_->Refused(edit.sha256, edit.refusal.place(), edit.refusal.message());
}

void EditReporter::ReportRejected(const agree::Change& change, const std::string& why) {
  Event event = EventAbout(EventKind::kRefused, change.sha256, change.bytes);
  event.message = why + (controller_->state().window ? kPlanStays : "");
  outcome_ = RefreshOutcome::kRefused;
  ++refusals_[static_cast<size_t>(RefusalReason::kRank)];
  Emit(std::move(event));
  history_->Refused(change.sha256, {}, why);
}

void EditReporter::Report(const ReportLost& lost) {
  outcome_ = RefreshOutcome::kMissing;
  Emit(lost.kind, look_error_ + (controller_->state().window ? kPlanStays : ""));
}

void EditReporter::Report(const ReportRestored&) {
  outcome_ = RefreshOutcome::kUnchanged;
  Emit(EventKind::kRestored, "the file holds the bytes in force again");
}

void EditReporter::Report(const ReportStopping&) {
  outcome_ = RefreshOutcome::kStopping;
  const PlanId plan_id = controller_->state().window ? controller_->state().window->plan_id : 0;
  Emit(EventKind::kStopping,
       mode_.shares_store ? "the collection ends at the step that the ranks agree on"
                          : "the collection ends at the next step boundary",
       plan_id);
  history_->Stopping(plan_id, controller_->current().sha256);
}

void EditReporter::Report(const ReportSuperseded& superseded) {
  EmitSuperseded(superseded.plan_id, "its window ended, or another plan replaced it, before it was applied");
}

void EditReporter::EmitSuperseded(PlanId plan_id, const char* why) noexcept {
  IgnoreExceptions([&] { journal_->Update(plan_id, [](output::ManifestPlan& plan) { plan.state = "superseded"; }); });
  IgnoreExceptions([&] { Emit(EventKind::kSuperseded, why, plan_id); });
}

void EditReporter::ReportArmed(const plan::Plan& plan, const Edit* source, const std::string& when) noexcept {
  outcome_ = RefreshOutcome::kArmed;
  IgnoreExceptions([&] { journal_->AddPlan(plan); });
  if (source != nullptr)
    IgnoreExceptions([&] { history_->Armed(plan.layout.plan_id, plan.config_sha256, source->text); });
  IgnoreExceptions([&] {
    const size_t sites = plan.layout.sites.size();
    Emit(EventKind::kArmed, std::to_string(sites) + (sites == 1 ? " site" : " sites") + when, plan.layout.plan_id);
  });
}

void EditReporter::ReportFault(const std::string& what) {
  outcome_ = RefreshOutcome::kFailed;
  const bool was_failing = !fault_.empty();
  fault_ = what;
  if (!was_failing)
    Emit(EventKind::kDegraded, "the content of " + config_path_ + " could not be applied: " + what +
                                   (controller_->state().window ? kPlanStays : "") + "; it is retried");
}

void EditReporter::EndFault() {
  fault_.clear();
  Emit(EventKind::kRecovered, "the content of " + config_path_ + " is applied again");
}

}  // namespace stepwatch::reload
