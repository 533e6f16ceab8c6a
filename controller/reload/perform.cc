// What the machine decides is carried out: plans are published, the config is written back, and people are told.
#include <algorithm>
#include <utility>
#include <variant>

#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"
#include "src/plan/plan.h"

namespace stepwatch::reload {
namespace {

constexpr const char* kPlanStays = "; the running plan stays";

// Of the bytes of an edit.
Event EventAbout(EventKind kind, const std::string& sha256, const std::string& text) {
  Event event;
  event.kind = kind;
  event.sha256 = sha256;
  event.bytes = static_cast<int64_t>(text.size());
  return event;
}

}  // namespace

// --- reports ---

void Reloader::Perform(const ReportSeen&) {
  not_begun_.clear();
  Event event = EventAbout(EventKind::kSeen, current_.sha256, current_.text);
  const std::optional<output::EditPeer>& peer = history_.seen_peer();
  event.message = "new bytes in " + options_.config_path;
  if (state_.in_file)
    event.message = "new bytes " +
                    (peer ? "(through the control socket: " + output::PeerText(*peer) + ")" : "through a call") + "; " +
                    options_.config_path + " is unchanged";
  else if (agrees() && !agreement_->reads_the_file())
    event.message += " (from rank 0)";
  else if (peer)
    event.message += " (through the control socket: " + output::PeerText(*peer) + ")";
  Tell(std::move(event));
  if (current_.parsed.ok()) Warn(current_.parsed.value().warnings);
}

void Reloader::Perform(const ReportRefused&) {
  outcome_ = RefreshOutcome::kRefused;
  Event event = EventAbout(EventKind::kRefused, current_.sha256, current_.text);
  event.place = current_.refusal.place();
  event.message = current_.refusal.message() + (state_.window || state_.armed ? kPlanStays : "");
  ++refusals_[static_cast<size_t>(current_.refused_for)];
  Tell(std::move(event));
  history_.Refused(current_.sha256, current_.refusal.place(), current_.refusal.message());
}

void Reloader::TakeRejection(const agree::Change& change, const agree::Decision& decision) {
  Feed(Rejected{change.plan_id});
  Event event = EventAbout(EventKind::kRefused, change.sha256, change.bytes);
  event.message = agree::AbortText(decision) + (state_.window ? kPlanStays : "");
  outcome_ = RefreshOutcome::kRefused;
  ++refusals_[static_cast<size_t>(RefusalReason::kRank)];
  Tell(std::move(event));
  history_.Refused(change.sha256, {}, agree::AbortText(decision));
}

void Reloader::Perform(const ReportLost& lost) {
  outcome_ = RefreshOutcome::kMissing;
  Tell(lost.kind, look_error_ + (state_.window ? kPlanStays : ""));
}

void Reloader::Perform(const ReportRestored&) {
  outcome_ = RefreshOutcome::kUnchanged;
  Tell(EventKind::kRestored, "the file holds the bytes in force again");
}

void Reloader::Perform(const ReportStopping&) {
  outcome_ = RefreshOutcome::kStopping;
  const PlanId plan_id = state_.window ? state_.window->plan_id : 0;
  Tell(EventKind::kStopping,
       agreement_ ? "the collection ends at the step that the ranks agree on"
                  : "the collection ends at the next step boundary",
       plan_id);
  history_.Stopping(plan_id, current_.sha256);
}

void Reloader::Perform(const ReportSuperseded& superseded) {
  TellSuperseded(superseded.plan_id, "its window ended, or another plan replaced it, before it was applied");
}

void Reloader::TellSuperseded(PlanId plan_id, const char* why) {
  Quietly([&] { journal_.Update(plan_id, [](output::ManifestPlan& plan) { plan.state = "superseded"; }); });
  Quietly([&] { Tell(EventKind::kSuperseded, why, plan_id); });
}

void Reloader::TellArmed(const plan::Plan& plan, const std::string& when) noexcept {
  outcome_ = RefreshOutcome::kArmed;
  Quietly([&] { journal_.AddPlan(plan); });
  Quietly([&] { history_.Armed(plan.layout.plan_id, plan.config_sha256, plans_.Source(plan.layout.plan_id).text); });
  Quietly([&] {
    const size_t sites = plan.layout.sites.size();
    Tell(EventKind::kArmed, std::to_string(sites) + (sites == 1 ? " site" : " sites") + when, plan.layout.plan_id);
  });
}

// An edit that was put in is seen by the watcher like any other.
void Reloader::TellDisplaced(const ConfigWriter::Finding& finding) {
  const bool is_put_back = finding.kind == ConfigWriter::Finding::Kind::kPutBack;
  Tell(is_put_back ? EventKind::kNote : EventKind::kWarning, finding.message);
}

void Reloader::TellFault(const std::string& what) {
  outcome_ = RefreshOutcome::kFailed;
  const bool was_failing = !fault_.empty();
  fault_ = what;
  if (!was_failing)
    Tell(EventKind::kDegraded, "the content of " + options_.config_path + " could not be applied: " + what +
                                   (state_.window ? kPlanStays : "") + "; it is retried");
}

void Reloader::EndFault() {
  fault_.clear();
  Tell(EventKind::kRecovered, "the content of " + options_.config_path + " is applied again");
}

void Reloader::Warn(const std::vector<config::Warning>& warnings) {
  for (const config::Warning& warning : warnings) {
    if (warning.kind == config::Warning::Kind::kNotEffective && !said_.insert(warning.place.key).second) continue;
    Event event;
    event.kind = EventKind::kWarning;
    event.place = warning.place;
    event.message = warning.message;
    Tell(std::move(event));
  }
}

void Reloader::Tell(EventKind kind, std::string message, PlanId plan_id) {
  if (kind == EventKind::kSuperseded) history_.Superseded(plan_id);
  if (kind == EventKind::kAborted) history_.Aborted(plan_id, message);
  Event event;
  event.kind = kind;
  event.plan_id = plan_id;
  event.message = std::move(message);
  Tell(std::move(event));
}

// --- plans ---

void Reloader::Perform(const PublishPlan& action) {
  std::unique_ptr<step::PendingPlan> plan = PendingOf(action.plan_id);
  not_begun_.clear();
  if (dynamic_) Quietly([&] { WarnIfForgotten(plan->plan()); });
  asking_pace_.BeginAnew();
  const Edit& source = plans_.Source(action.plan_id);
  if (agrees()) return agreement_->Submit(std::move(plan), source);
  // In dynamic mode an edit accepted during step n holds from n + 1, or from the later step that it is for; all else
  // holds from the step about to begin.
  const int64_t next = parts_.data_plane->running.number() + (dynamic_ ? 1 : 0);
  const int64_t at_step = std::max(next, source.at_step);
  plan->at_step = at_step;
  const std::shared_ptr<const plan::Plan> armed = plan->pipeline->plan;
  PutInSlot(std::move(plan));
  TellArmed(*armed, at_step > next ? ", from step " + std::to_string(at_step) : "");
}

void Reloader::Perform(const RepublishPlan& action) {
  if (!agrees()) return Perform(PublishPlan{action.plan_id});
  std::unique_ptr<step::PendingPlan> plan = PendingOf(action.plan_id);
  agreement_->SubmitAgain(std::move(plan), plans_.Source(action.plan_id));
}

// The step thread waits for this plan, and takes it with the answer.
void Reloader::Perform(const ContinueWindow& action) {
  const plan::CompiledPlan& compiled = plans_.Source(action.plan_id).compiled;
  Quietly([&] { Warn(compiled.warnings); });
  continuation_ = plans_.MakeContinuation(compiled.plan);
  TellArmed(*compiled.plan, ", the window goes on");
}

// A limit is this rank's own: it waits for nobody, and the other ranks go on.
void Reloader::Perform(const PublishStop& action) {
  auto stop = std::make_unique<step::PendingPlan>(step::Stop{action.reason});
  stop->at_step = parts_.data_plane->running.number() + 1;
  if (agrees() && action.reason != step::EndReason::kLimited) return agreement_->Submit(std::move(stop), current_);
  if (agreement_) agreement_->WithdrawDeferred();
  PutInSlot(std::move(stop));
}

std::unique_ptr<step::PendingPlan> Reloader::PendingOf(PlanId plan_id) {
  const Edit& source = plans_.AddSource(plan_id, current_);
  Quietly([&] { Warn(source.compiled.warnings); });
  auto built = agreement_ ? agreement_->TakeBuilt(source.compiled.plan) : nullptr;
  return built ? std::move(built) : plans_.MakeWindow(source.compiled.plan);
}

void Reloader::PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) {
  resampled_ = 0;
  if (!std::holds_alternative<step::Continue>(plan->effect)) agreed_.reset();
  if (plan->pipeline) {
    PrepareOutput(plan->plan());
    in_slot_ = {plan->plan().layout.plan_id, plan->at_step};
  }
  plans_.PutInSlot(std::move(plan));
}

void Reloader::PrepareOutput(const plan::Plan& plan) {
  if (output_ == nullptr) {
    const auto output =
        std::make_shared<sinks::FormatSink>(options_.rank, parts_.storage->row_files(), parts_.storage->meter());
    std::vector<std::shared_ptr<Sink>> sinks{output};
    sinks.insert(sinks.end(), options_.extra_sinks.begin(), options_.extra_sinks.end());
    parts_.drain->SetSinks(std::move(sinks));
    output_ = output;
  }
  journal_.FixDirectory(plan);
  if (plan.layout.format == OutputFormat::kApi) parts_.drain->KeepLatest();
}

// --- write-backs ---

// Not done, for want of memory, it stays due: no input that led to it comes again.
void Reloader::Perform(const WriteBack& action) try {
  if (agreement_ && !agreement_->reads_the_file()) return agreement_->TellWritten(action.plan_id);
  if (agrees()) return agreement_->WriteBackWhenWritten(action);
  WriteBackNow(action);
} catch (const std::exception& error) {
  RetryWriteBack(action, error.what());
}

void Reloader::RetryWriteBack(const WriteBack& action, const std::string& why) {
  Feed(FoundEdited{action.base_sha256, action.plan_id});
  if (watcher_) watcher_->SetKnown("");
  TellFault(why);
}

void Reloader::WriteBackNow(const WriteBack& action) try {
  config_writer_.WriteBack(action.base_sha256, watcher_->IsUnchanged(),
                           [this, action](const Status& fault, const writeback::WriteBackResult& result) {
                             if (fault.ok()) return OnWroteBack(action, result);
                             RetryWriteBack(action, fault.message());
                           });
} catch (const std::exception& error) {
  RetryWriteBack(action, error.what());
}

void Reloader::OnWroteBack(const WriteBack& action, const writeback::WriteBackResult& result) {
  const bool is_edited = result.outcome == writeback::WriteBackOutcome::kEdited;
  const bool is_written = result.outcome == writeback::WriteBackOutcome::kWritten;
  // An edit that was seen while the write-back was under way is newer than both.
  const bool is_news = state_.in_file.value_or(state_.seen) == action.base_sha256;
  const std::string holds = is_edited || !is_news ? "" : is_written ? result.sha256 : action.base_sha256;
  if (is_edited)
    Feed(FoundEdited{action.base_sha256, action.plan_id});
  else
    Feed(WroteBack{action.base_sha256, holds});
  if (is_written && current_.sha256 == action.base_sha256 && IsOnce())
    history_.WroteBack(action.plan_id, action.base_sha256, result.sha256);
  watcher_->SetKnown(holds);  // unknown: whatever the file holds is looked at, the base bytes included
  const std::string message = is_written ? "dynamic_on is false in the file now (" + result.method + ")"
                                         : "dynamic_on was not written back: " + result.message;
  Quietly([&] { journal_.Update(action.plan_id, [&](output::ManifestPlan& plan) { plan.write_back = message; }); });
  journal_.AfterSaved([this, message, id = action.plan_id] { Tell(EventKind::kWroteBack, message, id); });
}

}  // namespace stepwatch::reload
