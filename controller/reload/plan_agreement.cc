#include "controller/reload/plan_agreement.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "src/base/ignore_exceptions.h"
#include "src/output/run_directory.h"

namespace stepwatch::reload {
namespace {

constexpr std::chrono::milliseconds kVoteAfterFault{100};
// Time for rows that other ranks still write when the last step is over.
constexpr std::chrono::seconds kWriteTime{30};

agree::Mode ModeOf(config::Coordination coordination) {
  switch (coordination) {
    case config::Coordination::kStrict: return agree::Mode::kStrict;
    case config::Coordination::kBestEffort: return agree::Mode::kBestEffort;
    case config::Coordination::kLocal: return agree::Mode::kLocal;
  }
  return agree::Mode::kStrict;
}

// A change with a named step holds for all ranks, and pauses and samplings never concern one rank alone.
agree::Mode ModeWithStep(config::Coordination coordination) {
  const agree::Mode mode = ModeOf(coordination);
  return mode == agree::Mode::kLocal ? agree::Mode::kBestEffort : mode;
}

std::string NameOf(agree::Deed deed) {
  switch (deed) {
    case agree::Deed::kEdit: return "the edit";
    case agree::Deed::kPause: return "the pause";
    case agree::Deed::kResume: return "the end of the pause";
    case agree::Deed::kSampling: return "the sampling";
  }
  return "";
}

// Marks a proposal as committing for the life of this object.
class Committing {
 public:
  Committing(const agree::Proposal** place, const agree::Proposal* proposal) : place_(place) { *place = proposal; }
  ~Committing() { *place_ = nullptr; }
  Committing(const Committing&) = delete;
  Committing& operator=(const Committing&) = delete;

 private:
  const agree::Proposal** const place_;
};

agree::Settings SettingsFrom(const Options& options, bool dynamic) {
  agree::Settings settings;
  settings.prefix = options.store_prefix;
  settings.rank = options.rank;
  settings.world_size = options.world_size;
  settings.incarnation = output::ShortId(output::RandomRunId());
  settings.run_id = options.run_id;
  settings.steers = dynamic;
  settings.poll = options.store_poll;
  settings.poll_max = std::max(settings.poll_max, options.store_poll);
  settings.busy_poll = std::min(settings.busy_poll, options.store_poll);
  return settings;
}

agree::Decision Cannot(int rank, std::string reason) {
  return {false, agree::Cause::kCannot, rank, 0, std::move(reason), 0};
}

}  // namespace

PlanAgreement::PlanAgreement(const Options& options, bool dynamic, boost::asio::io_context& loop,
                             step::DataPlane* data_plane, Delegates delegates, ask::QuestionHost* host)
    : delegates_(std::move(delegates)),
      data_plane_(data_plane),
      rank_(options.rank),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      timer_(loop),
      retry_timer_(loop),
      question_timer_(loop),
      settings_(SettingsFrom(options, dynamic)),
      coordinator_(std::make_shared<agree::Coordinator>(settings_, options.store,
                                                        static_cast<agree::RankDelegate*>(this), ForCoordinator())),
      questions_(host == nullptr || !dynamic ? nullptr : MakeQuestions(options, host)) {}

std::shared_ptr<ask::Questions> PlanAgreement::MakeQuestions(const Options& options, ask::QuestionHost* host) {
  ask::Questions::Settings settings;
  settings.prefix = settings_.prefix;
  settings.rank = settings_.rank;
  settings.world_size = settings_.world_size;
  settings.incarnation = settings_.incarnation;
  ask::Questions::Dependencies dependencies;
  dependencies.now = [] { return std::chrono::steady_clock::now(); };
  dependencies.post = [mailbox = mailbox_](std::function<void()> work) { mailbox->Post(std::move(work)); };
  dependencies.wake_at = [this](agree::Time time) { question_timer_.At(time, [this] { questions_->Advance(); }); };
  dependencies.announce = [this](int64_t number) { coordinator_->AnnounceQuestion(number); };
  return std::make_shared<ask::Questions>(std::move(settings), options.store, host, std::move(dependencies));
}

agree::Coordinator::Dependencies PlanAgreement::ForCoordinator() {
  agree::Coordinator::Dependencies dependencies;
  dependencies.now = [] { return std::chrono::steady_clock::now(); };
  dependencies.post = [mailbox = mailbox_](std::function<void()> work) { mailbox->Post(std::move(work)); };
  dependencies.wake_at = [this](agree::Time time) {
    proposed_step_.store(coordinator_->proposed_step().value_or(-1), std::memory_order_relaxed);
    WakeAt(time);
  };
  return dependencies;
}

PlanAgreement::~PlanAgreement() {
  Leave();
}

void PlanAgreement::Enter() {
  if (std::exchange(has_entered_, true)) return;
  Advance();
  if (questions_) questions_->Start();
}

void PlanAgreement::Leave() {
  WriteBackNow();
  mailbox_->Close();
  coordinator_->Stop();
  if (questions_) questions_->Stop();
  timer_.Cancel();
  retry_timer_.Cancel();
  question_timer_.Cancel();
  Release();
}

void PlanAgreement::WakeAt(agree::Time time) {
  timer_.At(time, [this] { Advance(); });
}

void PlanAgreement::Advance() {
  try {
    coordinator_->Advance();
  } catch (...) {  // the loop reports it; the other ranks still need this rank's vote
    WakeAt(std::chrono::steady_clock::now() + kVoteAfterFault);
    throw;
  }
  ReportDoubt();
}

// --- rank 0 proposes ---

void PlanAgreement::Submit(std::unique_ptr<step::PendingPlan> plan, const Edit& edit) {
  if (committing_ != nullptr) return Place(std::move(plan), *committing_);
  Propose(std::move(plan), edit);
}

void PlanAgreement::SubmitAgain(std::unique_ptr<step::PendingPlan> plan, const Edit& edit) {
  if (waiting_.empty() && placed_) return Place(std::move(plan), *placed_);
  if (coordinator_->defers()) DiscardWaiting(tickets_);  // it belongs to the same edit
  Propose(std::move(plan), edit);
}

void PlanAgreement::Propose(std::unique_ptr<step::PendingPlan> plan, const Edit& edit) {
  Waiting waiting;
  waiting.ticket = ++tickets_;
  const config::Coordination coordination = edit.parsed.value().config.own.coordination;
  waiting.change.mode = edit.at_step > 0 ? ModeWithStep(coordination) : ModeOf(coordination);
  waiting.change.plan_id = plan->pipeline ? plan->plan().layout.plan_id : 0;
  waiting.change.sha256 = edit.sha256;
  waiting.change.bytes = edit.text;
  waiting.plan = std::move(plan);
  const agree::Change change = waiting.change;
  waiting_.push_back(std::move(waiting));
  coordinator_->Want(change, tickets_, edit.at_step);
  if (!coordinator_->defers()) return;
  DiscardOlder(tickets_);
  delegates_.reporter->Emit(
      EventKind::kNote,
      "the plan waits for step " + std::to_string(edit.at_step) + "; the ranks agree on it shortly before",
      change.plan_id);
}

void PlanAgreement::WithdrawDeferred() {
  if (!coordinator_->defers()) return;
  coordinator_->WithdrawDeferred();
  DiscardWaiting(tickets_);
  delegates_.reporter->Emit(EventKind::kNote,
                            "the edit that waited for its step is not applied: the collection has ended");
}

void PlanAgreement::ProposePause(bool pause, const Edit& running) {
  agree::Change change;
  change.mode = ModeWithStep(running.parsed.value().config.own.coordination);
  change.sha256 = running.sha256;
  change.deed = pause ? agree::Deed::kPause : agree::Deed::kResume;
  coordinator_->Want(change, 0);
}

std::optional<bool> PlanAgreement::pausing() const {
  const std::optional<agree::Deed> deed = coordinator_->undecided();
  if (deed != agree::Deed::kPause && deed != agree::Deed::kResume) return std::nullopt;
  return *deed == agree::Deed::kPause;
}

void PlanAgreement::ProposeSampling(const std::string& sampling, PlanId plan_id, const Edit& running) {
  agree::Change change;
  change.mode = ModeWithStep(running.parsed.value().config.own.coordination);
  change.plan_id = plan_id;
  change.sha256 = running.sha256;
  change.bytes = sampling;
  change.deed = agree::Deed::kSampling;
  coordinator_->Want(change, 0);
}

void PlanAgreement::Settle(const agree::Settled& settled) {
  const agree::Decision& decision = settled.decision;
  if (settled.proposal.change.deed == agree::Deed::kSampling && !decision.commit && !settled.retries)
    return delegates_.samplings->OnSamplingRejected(decision);
  if (settled.proposal.change.deed != agree::Deed::kEdit) return;
  // Without a vote the local commit may come later than the job's; it applies the waiting plan.
  if (!settled.retries && !decision.commit) DiscardWaiting(settled.ticket);
  DiscardOlder(decision.commit ? settled.ticket : tickets_);
  if (settled.retries || decision.commit || settled.ticket != tickets_) return;
  if (decision.cause == agree::Cause::kRenumber) return delegates_.edits->Renumber(decision.next_plan_id);
  delegates_.edits->OnRejected(settled.proposal.change, decision);
}

void PlanAgreement::DiscardWaiting(int64_t ticket) {
  std::erase_if(waiting_, [&](const Waiting& each) { return each.ticket == ticket; });
}

// Only the newest is proposed again.
void PlanAgreement::DiscardOlder(int64_t kept) {
  const auto is_over = [&](const Waiting& each) { return each.ticket < tickets_ && each.ticket != kept; };
  for (const Waiting& each : waiting_)
    if (is_over(each) && each.plan->pipeline)
      delegates_.reporter->Emit(EventKind::kSuperseded, "a newer edit arrived before the ranks agreed on it",
                                each.change.plan_id);
  std::erase_if(waiting_, is_over);
}

// --- every rank ---

PlanId PlanAgreement::IdFor(const agree::Proposal& proposal) const {
  return std::max(delegates_.edits->next_plan_id(), proposal.change.plan_id);
}

std::optional<agree::Decision> PlanAgreement::Build(const agree::Proposal& proposal) {
  if (proposal.change.deed == agree::Deed::kSampling) return TrySampling(proposal);
  if (proposal.change.deed != agree::Deed::kEdit) return std::nullopt;
  if (rank_ == 0) return std::nullopt;  // built before it was proposed
  const PlanId id = IdFor(proposal);
  if (proposal.change.plan_id != 0 && proposal.change.plan_id < id)
    return agree::Decision{false, agree::Cause::kRenumber, rank_, id, "", 0};
  built_.reset();
  try {
    Built built = BuildFrom(proposal);
    if (built.edit.intent == EditIntent::kRefused) return Cannot(rank_, built.edit.refusal.ToString());
    built_ = std::move(built);
    return std::nullopt;
  } catch (const std::exception& error) {  // no memory, perhaps for the plan's ring
    return Cannot(rank_, error.what());
  }
}

// Rank 0 has kept the id free. Without votes this does not matter.
std::optional<agree::Decision> PlanAgreement::TrySampling(const agree::Proposal& proposal) {
  const PlanId id = delegates_.edits->next_plan_id();
  if (rank_ != 0 && proposal.change.mode == agree::Mode::kStrict && proposal.change.plan_id < id)
    return agree::Decision{false, agree::Cause::kRenumber, rank_, id, "", 0};
  try {
    const Status fault = delegates_.samplings->TrySampling(proposal.change);
    return fault.ok() ? std::nullopt : std::optional(Cannot(rank_, fault.ToString()));
  } catch (const std::exception& error) {  // no memory
    return Cannot(rank_, error.what());
  }
}

PlanAgreement::Built PlanAgreement::BuildFrom(const agree::Proposal& proposal) {
  return {delegates_.edits->Build(proposal.change, IdFor(proposal)), proposal.number};
}

std::unique_ptr<step::PendingPlan> PlanAgreement::TakeBuilt(const std::shared_ptr<const plan::Plan>& plan) {
  if (!built_ || !built_->plan || built_->plan->pipeline->plan != plan) return nullptr;
  return std::move(built_->plan);
}

// The other ranks switch, so this one must too: a commit that fails for lack of memory is retried until it succeeds.
void PlanAgreement::Commit(const agree::Proposal& proposal) {
  try {
    if (proposal.change.deed == agree::Deed::kSampling)
      delegates_.samplings->OnSamplingAgreed(proposal.change, proposal.at_step);
    else if (proposal.change.deed != agree::Deed::kEdit)
      CommitPause(proposal);
    else if (rank_ == 0)
      CommitOwn(proposal);
    else
      CommitProposed(proposal);
    EndDoubt();
    if (std::exchange(retries_commit_, false)) delegates_.reporter->EndFault();
  } catch (const std::exception& error) {
    retries_commit_ = true;
    delegates_.reporter->ReportFault(error.what());
    retry_timer_.After(kVoteAfterFault, [this, proposal] { Commit(proposal); });
  }
}

void PlanAgreement::CommitOwn(const agree::Proposal& proposal) {
  const auto ours = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
    return each.change.plan_id == proposal.change.plan_id && each.change.sha256 == proposal.change.sha256;
  });
  if (ours == waiting_.end()) return;
  const Committing committing(&committing_, &proposal);
  Place(std::move(ours->plan), proposal);
  waiting_.erase(ours);
}

// Earlier changes have begun on all ranks, so the window in force is the same.
void PlanAgreement::CommitPause(const agree::Proposal& proposal) {
  const int64_t late = begun() + 1 - proposal.at_step;
  delegates_.on_pause_agreed(proposal.change.deed == agree::Deed::kPause, proposal.at_step);
  if (late > 0) base::IgnoreExceptions([&] { ReportLate(proposal, late, 0); });
}

// As if these bytes had been found in the file, with the agreed step.
void PlanAgreement::CommitProposed(const agree::Proposal& proposal) {
  const PlanId id = IdFor(proposal);
  // The model may have grown since the vote, or a call of this rank's program may have used the id.
  const bool is_current =
      built_ && built_->number == proposal.number &&
      (built_->edit.intent != EditIntent::kRun || (built_->plan && built_->plan->plan().layout.plan_id == id));
  if (!is_current) built_ = BuildFrom(proposal);
  {
    const Committing committing(&committing_, &proposal);
    delegates_.edits->OnAgreed(built_->edit, proposal.change.plan_id);
  }
  built_.reset();
}

void PlanAgreement::Place(std::unique_ptr<step::PendingPlan>&& plan, const agree::Proposal& proposal) {
  const bool is_local = proposal.change.mode == agree::Mode::kLocal;
  plan->at_step = is_local ? begun() + 1 : proposal.at_step;
  const std::shared_ptr<const plan::Plan> armed = plan->pipeline ? plan->pipeline->plan : nullptr;
  if (armed) plan->effect = step::NewWindow{is_local ? step::StartRule::kWhenApplied : step::StartRule::kAtStep};
  const int64_t late = begun() + 1 - plan->at_step;
  placed_ = proposal;
  const std::string when = is_local ? "" : ", from step " + std::to_string(plan->at_step);
  delegates_.edits->PutInSlot(std::move(plan));
  if (armed) {
    if (committing_ != nullptr) Release();  // later plans need no wait at the gate
    delegates_.edits->ReportArmed(*armed, when);
  }
  if (late > 0) base::IgnoreExceptions([&] { ReportLate(proposal, late, armed ? armed->layout.plan_id : 0); });
}

void PlanAgreement::ReportLate(const agree::Proposal& proposal, int64_t steps, PlanId plan_id) {
  delegates_.reporter->Emit(EventKind::kDegraded,
                            NameOf(proposal.change.deed) + " for step " + std::to_string(proposal.at_step) +
                                " reached this rank " + std::to_string(steps) +
                                (steps == 1 ? " step late" : " steps late") + "; it holds from the next boundary",
                            plan_id);
}

void PlanAgreement::Discard(const agree::Proposal& proposal, const agree::Decision& decision) {
  if (built_ && built_->number == proposal.number) built_.reset();
  // No client has requested a sampling, and the one in force stays: rank 0 reports it if the ranks agree on none in the
  // end.
  if (proposal.change.deed != agree::Deed::kSampling) ReportDiscarded(proposal, decision);
  EndDoubt();
}

void PlanAgreement::ReportDiscarded(const agree::Proposal& proposal, const agree::Decision& decision) {
  const bool is_edit = proposal.change.deed == agree::Deed::kEdit;
  std::string text =
      proposal.at_step > 0 ? NameOf(proposal.change.deed) + " for step " + std::to_string(proposal.at_step) : "an edit";
  text += " was not applied on any rank: " + agree::AbortText(decision);
  if (decision.cause == agree::Cause::kLate || decision.cause == agree::Cause::kSilent)
    text += "; rank 0 proposes it again for a later step";
  delegates_.reporter->Emit(is_edit ? EventKind::kAborted : EventKind::kNote, std::move(text), proposal.change.plan_id);
}

void PlanAgreement::Join(const std::string& run_id) {
  delegates_.on_run_id(run_id);
  has_joined_run_ = true;
}

// --- the write-back ---

void PlanAgreement::WriteBackWhenWritten(const WriteBack& action) {
  write_back_ = action;
  if (action.plan_id == 0) return WriteBackNow();  // no rows
  coordinator_->AwaitWritten(AgreedId(action.plan_id), std::chrono::steady_clock::now() + kWriteTime,
                             [this] { WriteBackNow(); });
}

// The id by which all ranks identify a complete window: on some of them a plan of their own may have continued it.
PlanId PlanAgreement::AgreedId(PlanId plan_id) const {
  return placed_ && placed_->change.plan_id != 0 ? placed_->change.plan_id : plan_id;
}

void PlanAgreement::WriteBackNow() {
  if (!write_back_) return;
  const WriteBack action = *std::exchange(write_back_, std::nullopt);
  delegates_.write_back(action);
}

// --- the store, rank 0 and late decisions ---

void PlanAgreement::LeaderIsSilent(std::chrono::milliseconds time) {
  delegates_.reporter->Emit(
      EventKind::kDegraded,
      "no message of rank 0 arrived within " + std::to_string(time.count()) +
          " ms. Only rank 0 reads the config file of a job with several ranks: until a monitor is attached "
          "there too, edits reach no rank");
}

void PlanAgreement::LeaderIsIncompatible(const std::string& why) {
  delegates_.reporter->Emit(EventKind::kDegraded, why + ". Until they do, edits reach no rank");
}

void PlanAgreement::QuestionAnnounced(const agree::Incarnation& session, int64_t number) {
  if (questions_) questions_->OnAnnounced(session, number);
}

void PlanAgreement::StoreChanged(const Status& status) {
  if (status.ok()) return delegates_.reporter->Emit(EventKind::kRecovered, "the job's store answers again");
  delegates_.reporter->Emit(EventKind::kDegraded,
                            "the job's store does not answer (" + status.message() +
                                "); it is retried, and until then edits reach no rank, or not all");
}

void PlanAgreement::ReportDoubt() {
  const int64_t timeouts = data_plane_->gate.timeouts();
  if (std::exchange(reported_timeouts_, timeouts) == timeouts) return;
  is_doubt_reported_ = true;
  delegates_.reporter->Emit(EventKind::kDegraded,
                            "a step began without the job's decision about an edit for it; the plan is "
                            "unchanged, and rows are marked in doubt until the decision is known");
}

void PlanAgreement::EndDoubt() {
  if (std::exchange(is_doubt_reported_, false))
    delegates_.reporter->Emit(EventKind::kRecovered, "the job's decision is known");
}

}  // namespace stepwatch::reload
