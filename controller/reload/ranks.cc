#include "controller/reload/ranks.h"

#include <algorithm>
#include <utility>

#include "src/output/run_directory.h"

namespace stepwatch::reload {
namespace {

constexpr std::chrono::milliseconds kAfterFault{100};
// For rows that other ranks still write when the last step is over.
constexpr std::chrono::seconds kWriteTime{30};

agree::Mode ModeOf(config::Coordination coordination) {
  switch (coordination) {
    case config::Coordination::kStrict: return agree::Mode::kStrict;
    case config::Coordination::kBestEffort: return agree::Mode::kBestEffort;
    case config::Coordination::kLocal: return agree::Mode::kLocal;
  }
  return agree::Mode::kStrict;
}

// For the time of a commit.
class Committing {
 public:
  Committing(const agree::Proposal** place, const agree::Proposal* proposal) : place_(place) { *place = proposal; }
  ~Committing() { *place_ = nullptr; }
  Committing(const Committing&) = delete;
  Committing& operator=(const Committing&) = delete;

 private:
  const agree::Proposal** const place_;
};

}  // namespace

Reloader::Ranks::Ranks(Reloader* reloader)
    : reloader_(reloader),
      rank_(reloader->options_.rank),
      mailbox_(std::make_shared<watch::LoopMailbox>(*reloader->parts_.loop)),
      timer_(*reloader->parts_.loop),
      retry_timer_(*reloader->parts_.loop) {
  const Options& options = reloader->options_;
  agree::Settings settings;
  settings.prefix = options.store_prefix;
  settings.rank = rank_;
  settings.world_size = options.world_size;
  settings.incarnation = output::ShortId(output::RandomRunId());
  settings.run_id = options.run_id;
  settings.steers = reloader->dynamic_;
  settings.poll = options.store_poll;
  settings.poll_max = std::max(settings.poll_max, options.store_poll);
  settings.busy_poll = std::min(settings.busy_poll, options.store_poll);
  agree::Coordinator::Dependencies around;
  around.now = [] { return std::chrono::steady_clock::now(); };
  around.post = [mailbox = mailbox_](std::function<void()> work) { mailbox->Post(std::move(work)); };
  around.wake_at = [this](agree::Time at) {
    reloader_->proposed_step_.store(coordinator_->proposed_step().value_or(-1), std::memory_order_relaxed);
    timer_.expires_at(at);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) Advance();
    });
  };
  coordinator_ = std::make_shared<agree::Coordinator>(std::move(settings), options.store, this, std::move(around));
}

Reloader::Ranks::~Ranks() {
  Leave();
}

void Reloader::Ranks::Enter() {
  if (std::exchange(has_entered_, true)) return;
  Advance();
}

void Reloader::Ranks::WriteBackWhenWritten(const WriteBack& order) {
  write_back_ = order;
  if (order.plan_id == 0) return WriteBackNow();  // no rows
  coordinator_->AwaitWritten(AgreedId(order.plan_id), std::chrono::steady_clock::now() + kWriteTime,
                             [this] { WriteBackNow(); });
}

// The id by which all ranks know a window that is complete: on some of them a plan of their own may have carried it on.
PlanId Reloader::Ranks::AgreedId(PlanId plan_id) const {
  return placed_ && placed_->change.plan_id != 0 ? placed_->change.plan_id : plan_id;
}

void Reloader::Ranks::WriteBackNow() {
  if (!write_back_) return;
  const WriteBack order = *std::exchange(write_back_, std::nullopt);
  reloader_->WriteBackHere(order);
}

void Reloader::Ranks::Leave() {
  WriteBackNow();
  mailbox_->Close();
  coordinator_->Stop();
  timer_.cancel();
  retry_timer_.cancel();
  gate().Release();
}

void Reloader::Ranks::Advance() {
  try {
    coordinator_->Advance();
  } catch (...) {  // the loop tells of it; the job's other ranks still count on this one
    timer_.expires_after(kAfterFault);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) Advance();
    });
    throw;
  }
  ReportDoubt();
}

step::StepGate& Reloader::Ranks::gate() {
  return reloader_->parts_.data_plane->gate;
}

int64_t Reloader::Ranks::arriving() {
  return gate().arriving();
}
int64_t Reloader::Ranks::begun() {
  return reloader_->parts_.data_plane->running.number();
}
int64_t Reloader::Ranks::HoldAt(int64_t step) {
  return gate().HoldAt(step);
}
void Reloader::Ranks::Release() {
  gate().Release();
}

// --- rank 0 proposes ---

void Reloader::Ranks::Take(std::unique_ptr<step::PendingPlan> plan) {
  if (committing_ != nullptr) return Place(std::move(plan), *committing_);
  Propose(std::move(plan));
}

void Reloader::Ranks::TakeAgain(std::unique_ptr<step::PendingPlan> plan) {
  if (waiting_.empty() && placed_) return Place(std::move(plan), *placed_);
  Propose(std::move(plan));
}

void Reloader::Ranks::Propose(std::unique_ptr<step::PendingPlan> plan) {
  const PlanId id = plan->pipeline ? plan->plan().layout.plan_id : 0;
  const Edit& from = id != 0 ? reloader_->sources_.at(id) : reloader_->current_;
  Waiting waiting;
  waiting.ticket = ++tickets_;
  waiting.change.mode = ModeOf(from.parsed.value().config.own.coordination);
  waiting.change.plan_id = id;
  waiting.change.sha256 = from.sha256;
  waiting.change.bytes = from.text;
  waiting.plan = std::move(plan);
  const agree::Change change = waiting.change;
  waiting_.push_back(std::move(waiting));
  coordinator_->Want(change, tickets_);
}

void Reloader::Ranks::Settle(const agree::Settled& settled) {
  // Without a vote the commit here may come later than the one for the job; it takes what waits.
  if (!settled.retries && !settled.decision.commit) Forget(settled.ticket);
  ForgetOlder(settled.decision.commit ? settled.ticket : tickets_);
  if (settled.retries || settled.decision.commit || settled.ticket != tickets_) return;
  if (settled.decision.cause == agree::Cause::kRenumber) return reloader_->Renumber(settled.decision.next_plan_id);
  Refuse(settled);
}

void Reloader::Ranks::Refuse(const agree::Settled& settled) {
  reloader_->Feed(Rejected{settled.proposal.change.plan_id});
  Event event;
  event.kind = EventKind::kRefused;
  event.sha256 = settled.proposal.change.sha256;
  event.bytes = static_cast<int64_t>(settled.proposal.change.bytes.size());
  event.message = agree::AbortText(settled.decision) + (reloader_->state_.window ? "; the running plan stays" : "");
  reloader_->outcome_ = RefreshOutcome::kRefused;
  reloader_->Tell(std::move(event));
}

void Reloader::Ranks::Forget(int64_t ticket) {
  std::erase_if(waiting_, [&](const Waiting& each) { return each.ticket == ticket; });
}

// Only the newest is proposed again.
void Reloader::Ranks::ForgetOlder(int64_t kept) {
  const auto is_over = [&](const Waiting& each) { return each.ticket < tickets_ && each.ticket != kept; };
  for (const Waiting& each : waiting_)
    if (is_over(each) && each.plan->pipeline)
      reloader_->Tell(EventKind::kSuperseded, "a newer edit came before the ranks agreed on it", each.change.plan_id);
  std::erase_if(waiting_, is_over);
}

// --- every rank ---

std::optional<agree::Decision> Reloader::Ranks::Build(const agree::Proposal& proposal) {
  if (rank_ == 0) return std::nullopt;  // built before it was proposed
  const PlanId next = reloader_->state_.next_plan_id;
  if (proposal.change.plan_id != 0 && proposal.change.plan_id < next)
    return agree::Decision{false, agree::Cause::kRenumber, rank_, next, "", 0};
  built_.reset();
  try {
    Built built = BuildFrom(proposal);
    if (built.edit.intent == EditIntent::kRefused)
      return agree::Decision{false, agree::Cause::kCannot, rank_, 0, built.edit.refusal.ToString(), 0};
    built_ = std::move(built);
    return std::nullopt;
  } catch (const std::exception& error) {  // no memory, for the plan's ring perhaps
    return agree::Decision{false, agree::Cause::kCannot, rank_, 0, error.what(), 0};
  }
}

Reloader::Ranks::Built Reloader::Ranks::BuildFrom(const agree::Proposal& proposal) {
  const agree::Change& change = proposal.change;
  const PlanId id = std::max(reloader_->state_.next_plan_id, change.plan_id);
  Built built;
  built.number = proposal.number;
  built.edit = reloader_->pipeline_.Parse(change.sha256, change.bytes);
  if (reloader_->pipeline_.Classify(&built.edit, id) == EditIntent::kRun)
    built.plan = reloader_->MakePending(built.edit.compiled.plan, reloader_->OwnWindow());
  return built;
}

std::unique_ptr<step::PendingPlan> Reloader::Ranks::TakeBuilt(const std::shared_ptr<const plan::Plan>& plan) {
  if (!built_ || !built_->plan || built_->plan->pipeline->plan != plan) return nullptr;
  return std::move(built_->plan);
}

// The other ranks go over, so this one has to: what fails for want of memory is tried until it succeeds.
void Reloader::Ranks::Commit(const agree::Proposal& proposal) {
  try {
    CommitNow(proposal);
    if (std::exchange(retries_commit_, false)) reloader_->EndFault();
  } catch (const std::exception& error) {
    retries_commit_ = true;
    reloader_->TellFault(error.what());
    retry_timer_.expires_after(kAfterFault);
    retry_timer_.async_wait([this, proposal](const boost::system::error_code& fault) {
      if (!fault) Commit(proposal);
    });
  }
}

void Reloader::Ranks::CommitNow(const agree::Proposal& proposal) {
  if (rank_ != 0) {
    CommitHere(proposal);
  } else {
    const auto ours = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
      return each.change.plan_id == proposal.change.plan_id && each.change.sha256 == proposal.change.sha256;
    });
    if (ours != waiting_.end()) {
      const Committing committing(&committing_, &proposal);
      Place(std::move(ours->plan), proposal);
      waiting_.erase(ours);
    }
  }
  EndDoubt();
}

// As if these bytes had been seen in the file, with the step that was agreed on.
void Reloader::Ranks::CommitHere(const agree::Proposal& proposal) {
  const PlanId id = std::max(reloader_->state_.next_plan_id, proposal.change.plan_id);
  // The model may have grown since the vote, or a call of this rank's program have used the id.
  const bool is_current =
      built_ && built_->number == proposal.number &&
      (built_->edit.intent != EditIntent::kRun || (built_->plan && built_->plan->plan().layout.plan_id == id));
  if (!is_current) built_ = BuildFrom(proposal);
  reloader_->current_ = built_->edit;
  {
    const Committing committing(&committing_, &proposal);
    reloader_->Feed(AgreedBytes{proposal.change.sha256, built_->edit.intent, proposal.change.plan_id});
  }
  built_.reset();
}

void Reloader::Ranks::Place(std::unique_ptr<step::PendingPlan>&& plan, const agree::Proposal& proposal) {
  const bool is_local = proposal.change.mode == agree::Mode::kLocal;
  plan->at_step = is_local ? reloader_->parts_.data_plane->running.number() + 1 : proposal.at_step;
  const bool is_plan = plan->pipeline != nullptr;
  if (is_plan) plan->effect = step::NewWindow{is_local ? step::StartRule::kWhenApplied : step::StartRule::kAtStep};
  const int64_t late = begun() + 1 - plan->at_step;
  const PlanId id = is_plan ? plan->plan().layout.plan_id : 0;
  placed_ = proposal;
  if (is_plan)
    reloader_->Arm(std::move(plan));
  else
    reloader_->PutInSlot(std::move(plan));
  if (late > 0)
    reloader_->Tell(EventKind::kDegraded,
                    "the edit for step " + std::to_string(proposal.at_step) + " reached this rank " +
                        std::to_string(late) + (late == 1 ? " step late" : " steps late") +
                        "; it holds from the next boundary",
                    id);
}

void Reloader::Ranks::Drop(const agree::Proposal& proposal, const agree::Decision& decision) {
  if (built_ && built_->number == proposal.number) built_.reset();
  std::string text = proposal.at_step > 0 ? "the edit for step " + std::to_string(proposal.at_step) : "an edit";
  text += " was not applied on any rank: " + agree::AbortText(decision);
  if (decision.cause == agree::Cause::kLate || decision.cause == agree::Cause::kSilent)
    text += "; rank 0 proposes it again for a later one";
  reloader_->Tell(EventKind::kAborted, std::move(text), proposal.change.plan_id);
  EndDoubt();
}

void Reloader::Ranks::Join(const std::string& run_id) {
  reloader_->journal_.SetRunId(run_id);
  reloader_->knows_run_id_ = true;
}

void Reloader::Ranks::LeaderIsSilent(std::chrono::milliseconds time) {
  reloader_->Tell(EventKind::kDegraded, "nothing was heard of rank 0 within " + std::to_string(time.count()) +
                                            " ms. It alone reads the config file of a job of several ranks: until a "
                                            "monitor is attached there too, edits reach no rank");
}

void Reloader::Ranks::StoreChanged(const Status& status) {
  if (status.ok()) return reloader_->Tell(EventKind::kRecovered, "the job's store answers again");
  reloader_->Tell(EventKind::kDegraded, "the job's store does not answer (" + status.message() +
                                            "); it is tried again, and until then edits reach no rank, or not all");
}

void Reloader::Ranks::ReportDoubt() {
  const int64_t timeouts = gate().timeouts();
  if (std::exchange(timeouts_told_, timeouts) == timeouts) return;
  doubt_told_ = true;
  reloader_->Tell(EventKind::kDegraded,
                  "a step began without the job's decision about an edit for it; the plan stays "
                  "as it is, and rows are marked in doubt until the decision is known");
}

void Reloader::Ranks::EndDoubt() {
  if (std::exchange(doubt_told_, false)) reloader_->Tell(EventKind::kRecovered, "the job's decision is known");
}

}  // namespace stepwatch::reload
